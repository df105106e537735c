//! The wire between one client and the server's router, in process: whole requests and answers, and every way to lose them.
//!
//! What passes is what would pass over a socket: method, path, headers, body bytes. The server that stands behind a [`Gate`] can be taken
//! away and replaced (a restart) while lines to it exist.
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use device::ports::{BoxFuture, HttpSend, TransportError};
use http_body_util::{BodyExt, Full};
use tokio::sync::watch;
use tower::ServiceExt;

use crate::rng::Rng;

type Answer = Result<http::Response<Bytes>, TransportError>;
/// `None`: the server was killed meanwhile.
type Serve = Arc<dyn Fn(http::Request<Bytes>) -> BoxFuture<'static, Option<http::Response<Bytes>>> + Send + Sync>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a server listens, or nobody does.
#[derive(Clone, Default)]
pub struct Gate(Arc<Mutex<Option<(Serve, watch::Sender<bool>)>>>);

impl Gate {
    pub fn open(&self, app: &server::App) {
        let router = app.router();
        let (kill, killed) = watch::channel(false);
        let serve: Serve = Arc::new(move |request| {
            let (router, mut killed) = (router.clone(), killed.clone());
            Box::pin(async move {
                let served = async {
                    let Ok(response) = router.oneshot(request.map(Full::new)).await;
                    let (parts, body) = response.into_parts();
                    match body.collect().await {
                        Ok(body) => Some(http::Response::from_parts(parts, body.to_bytes())),
                        Err(_) => None, // the answer broke off
                    }
                };
                let killed = async {
                    if killed.wait_for(|killed| *killed).await.is_err() {
                        std::future::pending::<()>().await; // a server that stopped in good order answers what it has begun
                    }
                };
                tokio::select! { biased;
                    answer = served => answer,
                    () = killed => None,
                }
            })
        });
        *lock(&self.0) = Some((serve, kill));
    }

    /// From now on connections are refused; what is being answered will be.
    pub fn shut(&self) {
        *lock(&self.0) = None;
    }

    /// Connections are refused, and what is being answered breaks off.
    pub fn kill(&self) {
        if let Some((_, kill)) = lock(&self.0).take() {
            kill.send_replace(true);
        }
    }

    fn serve(&self) -> Option<Serve> {
        lock(&self.0).as_ref().map(|(serve, _)| Arc::clone(serve))
    }
}

/// What happens to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    Pass,
    /// It never arrives; the client is told at once.
    LoseRequest,
    /// The server handles it; the client is told that the connection broke.
    LoseAnswer,
    /// The server handles it; the client hears nothing until it gives up.
    Hang,
    /// A proxy repeats it; the client gets the first answer.
    Repeat,
    /// The client goes away while it waits, and the server does not notice.
    Detach,
    /// Somebody else answers with these bytes and status 200; the server never sees it.
    Forge(Bytes),
    /// A gateway answers 503 and asks for so many seconds of patience; the server never sees it.
    Busy(u64),
}

/// How a line treats what it carries.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Weather {
    pub lose_request: f64,
    pub lose_answer: f64,
    pub hang: f64,
    pub repeat: f64,
    pub detach: f64,
    /// A captive portal answers instead.
    pub portal: f64,
    /// One way, from and to; different for each message, so that they overtake one another.
    pub delay_ms: (u64, u64),
}

impl Weather {
    pub const FAIR: Self = Self { lose_request: 0.0, lose_answer: 0.0, hang: 0.0, repeat: 0.0, detach: 0.0, portal: 0.0, delay_ms: (0, 0) };
}

type Judge = Box<dyn FnMut(&http::Request<Bytes>) -> Option<Fate> + Send>;
type Amend = Box<dyn Fn(&str, Bytes) -> Bytes + Send>;

struct Inner {
    rng: Rng,
    weather: Weather,
    is_down: bool,
    /// Decides before the weather does.
    judge: Option<Judge>,
    /// Changes the answer to a request on this path.
    amend: Option<Amend>,
    sent: u64,
}

/// One client's line. Clones are the same line.
#[derive(Clone)]
pub struct Line {
    gate: Gate,
    inner: Arc<Mutex<Inner>>,
}

impl Line {
    pub fn to(gate: &Gate, rng: Rng) -> Self {
        let inner = Inner { rng, weather: Weather::FAIR, is_down: false, judge: None, amend: None, sent: 0 };
        Self { gate: gate.clone(), inner: Arc::new(Mutex::new(inner)) }
    }

    pub fn set_weather(&self, weather: Weather) {
        lock(&self.inner).weather = weather;
    }
    pub fn set_down(&self, is_down: bool) {
        lock(&self.inner).is_down = is_down;
    }
    pub fn is_down(&self) -> bool {
        lock(&self.inner).is_down
    }
    /// From now on `judge` is asked first; `None` from it leaves the request to the weather.
    pub fn set_judge(&self, judge: impl FnMut(&http::Request<Bytes>) -> Option<Fate> + Send + 'static) {
        lock(&self.inner).judge = Some(Box::new(judge));
    }
    pub fn set_amend(&self, amend: impl Fn(&str, Bytes) -> Bytes + Send + 'static) {
        lock(&self.inner).amend = Some(Box::new(amend));
    }
    pub fn sent(&self) -> u64 {
        lock(&self.inner).sent
    }

    /// Fate and the delays of both ways.
    fn decide(&self, request: &http::Request<Bytes>) -> (Fate, u64, u64) {
        let mut inner = lock(&self.inner);
        inner.sent += 1;
        let Weather { lose_request, lose_answer, hang, repeat, detach, portal, delay_ms: (from, to) } = inner.weather;
        let mut delay = || if to > from { from + inner.rng.below(to - from + 1) } else { from };
        let (out, back) = (delay(), delay());
        if let Some(fate) = inner.judge.as_mut().and_then(|judge| judge(request)) {
            return (fate, out, back);
        }
        if inner.is_down {
            return (Fate::LoseRequest, out, back);
        }
        if lose_request + lose_answer + hang + repeat + detach + portal == 0.0 {
            return (Fate::Pass, out, back);
        }
        let mut draw = inner.rng.unit();
        let mut falls = |share: f64| {
            draw -= share;
            draw < 0.0
        };
        let fate = if falls(lose_request) {
            Fate::LoseRequest
        } else if falls(lose_answer) {
            Fate::LoseAnswer
        } else if falls(hang) {
            Fate::Hang
        } else if falls(repeat) {
            Fate::Repeat
        } else if falls(detach) {
            Fate::Detach
        } else if falls(portal) {
            Fate::Forge(Bytes::from_static(b"<!doctype html><title>Welcome</title>Please accept the terms of this network."))
        } else {
            Fate::Pass
        };
        (fate, out, back)
    }

    async fn exchange(self, mut request: http::Request<Bytes>) -> Answer {
        // What every HTTP client adds by itself.
        if !request.headers().contains_key(http::header::HOST) {
            request.headers_mut().insert(http::header::HOST, http::HeaderValue::from_static(crate::world::HOST));
        }
        let (fate, out, back) = self.decide(&request);
        let broken = || TransportError::Unreachable("the connection was reset".into());
        if out > 0 {
            crate::clock::sleep_ms(out).await;
        }
        if fate == Fate::LoseRequest {
            return Err(broken());
        }
        if let Fate::Busy(seconds) = fate {
            return Ok(http::Response::builder().status(503).header("retry-after", seconds).body(Bytes::new()).unwrap_or_default());
        }
        if let Fate::Forge(body) = fate {
            return Ok(http::Response::builder().header("content-type", "text/html").body(body).unwrap_or_default());
        }
        let Some(serve) = self.gate.serve() else { return Err(TransportError::Unreachable("connection refused".into())) };
        let path = request.uri().path().to_owned();
        let copy = (fate == Fate::Repeat).then(|| copy_of(&request));
        let served = serve(request);
        let answer = match fate {
            // Whatever becomes of the client, the server goes on.
            Fate::Detach | Fate::Hang => tokio::spawn(served).await.map_err(|_| broken())?,
            Fate::Pass | Fate::Repeat | Fate::LoseAnswer | Fate::LoseRequest | Fate::Forge(_) | Fate::Busy(_) => served.await,
        };
        let answer = answer.ok_or_else(broken)?;
        if let Some(copy) = copy {
            serve(copy).await;
        }
        match fate {
            Fate::LoseAnswer => return Err(broken()),
            Fate::Hang => std::future::pending::<()>().await,
            Fate::Pass | Fate::Repeat | Fate::Detach | Fate::LoseRequest | Fate::Forge(_) | Fate::Busy(_) => {}
        }
        if back > 0 {
            crate::clock::sleep_ms(back).await;
        }
        let inner = lock(&self.inner);
        // The line was cut while the request was held.
        if inner.is_down {
            return Err(broken());
        }
        Ok(match &inner.amend {
            Some(amend) => answer.map(|body| amend(&path, body)),
            None => answer,
        })
    }
}

fn copy_of(request: &http::Request<Bytes>) -> http::Request<Bytes> {
    let mut copy = http::Request::new(request.body().clone());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    copy.headers_mut().clone_from(request.headers());
    copy
}

impl HttpSend for Line {
    fn send(&self, request: http::Request<Bytes>, within: Duration) -> BoxFuture<'static, Answer> {
        let line = self.clone();
        Box::pin(async move {
            match tokio::time::timeout(within, line.exchange(request)).await {
                Ok(answer) => answer,
                Err(_) => Err(TransportError::TimedOut(within.as_secs())),
            }
        })
    }
}
