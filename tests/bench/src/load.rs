//! Callers that ask again and again, and what it took them.
use std::{sync::Arc, time::Instant};

use crate::stats::Spread;

/// `times` calls by each of `callers` at once; each call's milliseconds, and calls per second.
pub async fn load<F, Fut>(callers: usize, times: usize, call: F) -> (Spread, f64)
where
    F: Fn(usize) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send,
{
    let (call, at) = (Arc::new(call), Instant::now());
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let call = call.clone();
            tokio::spawn(async move {
                let mut samples = Vec::with_capacity(times);
                for n in 0..times {
                    let at = Instant::now();
                    call(caller * times + n).await;
                    samples.push(at.elapsed().as_secs_f64() * 1000.0);
                }
                samples
            })
        })
        .collect();
    let mut samples = Vec::new();
    for task in tasks {
        samples.extend(task.await.unwrap());
    }
    (Spread::of(samples), (callers * times) as f64 / at.elapsed().as_secs_f64())
}
