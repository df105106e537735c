//! Several queues on one PostgreSQL: any instance serves any request, and bells ring across them.

use crate::{
    cluster::Cluster,
    world::{Agent, Desk, World, done},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bells_ring_across_instances_and_no_claim_is_granted_twice() {
    let cluster = Cluster::start();
    let place = cluster.place().await;
    let one = World::at(place.clone(), None).await;
    let two = World::at(place, None).await;
    two.draw_apart();
    let (desk, project, agent) = one.set_up().await;
    let far_desk = Desk { world: &two, ..desk.clone() };
    let far_agent = Agent { world: &two, ..agent.clone() };

    // A doorbell held here is rung by a command queued there, long before its hold is over.
    let ring = async {
        while one.app.bells_waiting() < 1 {
            tokio::task::yield_now().await;
        }
        far_agent.run("key-00001").await
    };
    let begin = std::time::Instant::now();
    let (rang, id) = tokio::join!(desk.doorbell(&project, 0, 25_000), ring);
    assert_eq!(rang.ok()["rang"], true);
    assert!(begin.elapsed().as_secs() < 20);

    // Two copies of the device at two instances: one is granted the command.
    let (a, b) = tokio::join!(desk.start(&id, "a"), far_desk.start(&id, "b"));
    let mut statuses = [a.status, b.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    let (execution, holder) = if a.status == 200 { ("a", &desk) } else { ("b", &far_desk) };

    // A cancel at one instance ends the control poll held at the other.
    let cancel = async {
        while one.app.bells_waiting() + two.app.bells_waiting() < 1 {
            tokio::task::yield_now().await;
        }
        if execution == "a" { far_agent.cancel(&id).await } else { agent.cancel(&id).await }
    };
    let (control, _) = tokio::join!(holder.control(&id, execution, 3000), cancel);
    assert_eq!(control.ok()["cancel"], true);
    far_desk.complete(&id, done(execution, "1")).await.ok();
    assert_eq!(agent.state(&id).await, "cancelled finished_before_stop");

    // The same key at both at once makes one command.
    let (x, y) = tokio::join!(agent.try_run(1, "key-00002", "{}"), far_agent.try_run(1, "key-00002", "{}"));
    assert_eq!(x.ok()["command_id"], y.ok()["command_id"]);
    let mut many = Vec::new();
    for n in 0..20 {
        many.push(if n % 2 == 0 { agent.clone() } else { far_agent.clone() });
    }
    let keys: Vec<String> = (0..20).map(|n| format!("key-1{n:04}")).collect();
    let made = futures::future::join_all(many.iter().zip(&keys).map(|(agent, key)| agent.run(key))).await;
    let offered = desk.offered(&project).await;
    assert_eq!(offered.len(), 21);
    assert!(made.iter().all(|id| offered.contains(id)));
    assert_eq!(far_desk.offered(&project).await, offered, "one order for all");
    assert_eq!(desk.get("commands?limit=50").await.ok()["commands"].as_array().unwrap().len(), 22);
    one.app.close().await;
    two.app.close().await;
}
