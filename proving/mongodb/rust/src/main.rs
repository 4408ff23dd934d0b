//! The Rust driver: work, refusals, and what its generation makes of them.
use std::env;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use mongodb::bson::{Document, doc};
use mongodb::error::{Error, ErrorKind, Result};
use mongodb::event::EventHandler;
use mongodb::event::cmap::CmapEvent;
use mongodb::event::command::CommandEvent;
use mongodb::event::sdam::SdamEvent;
use mongodb::options::ClientOptions;
use mongodb::{Client, Collection};

mod facts;
use facts::{brisk, end, fact};

const NAME: &str = "rust39";
const ATTEMPTS: usize = 3;

/// What the driver has told since it was cleared.
#[derive(Default)]
struct Seen {
    began: Vec<Instant>,
    ended: Vec<Instant>,
    bases: Vec<Option<Duration>>,
    created: usize,
    closed: usize,
    servers: Vec<String>,
}

type Watch = Arc<Mutex<Seen>>;

fn clear(watch: &Watch) {
    let mut seen = watch.lock().unwrap();
    let servers = std::mem::take(&mut seen.servers);
    *seen = Seen { servers, ..Seen::default() };
}

fn var(name: &str) -> String {
    env::var(name).unwrap()
}

/// Notes attempts, new connections, and the servers that the driver knows of.
async fn watched(uri: &str, watch: &Watch) -> Result<Client> {
    let mut options = ClientOptions::parse(uri).await?;
    let (commands, pool, topology) = (watch.clone(), watch.clone(), watch.clone());
    options.command_event_handler = Some(EventHandler::callback(move |event| {
        let mut seen = commands.lock().unwrap();
        match event {
            CommandEvent::Started(e) if ["find", "insert"].contains(&e.command_name.as_str()) => seen.began.push(Instant::now()),
            CommandEvent::Failed(e) => {
                seen.ended.push(Instant::now());
                seen.bases.push(e.failure.base_backoff());
            }
            _ => {}
        }
    }));
    options.cmap_event_handler = Some(EventHandler::callback(move |event| {
        match event {
            CmapEvent::ConnectionCreated(_) => pool.lock().unwrap().created += 1,
            CmapEvent::ConnectionClosed(_) => pool.lock().unwrap().closed += 1,
            _ => {}
        }
    }));
    options.sdam_event_handler = Some(EventHandler::callback(move |event| {
        if let SdamEvent::TopologyDescriptionChanged(e) = event {
            topology.lock().unwrap().servers = e.new_description.servers().keys().map(|a| a.to_string()).collect();
        }
    }));
    Client::with_options(options)
}

async fn work(client: &Client, watch: &Watch) -> Result<()> {
    let things: Collection<Document> = client.database(NAME).collection("things");
    things.drop().await?;
    things.insert_many((0..1000).map(|n| doc! {"_id": n})).await?;
    let got: Vec<Document> = things.find(doc! {}).sort(doc! {"_id": 1}).batch_size(100).await?.try_collect().await?;
    let right = got.len() == 1000 && got.iter().enumerate().all(|(n, d)| d.get_i32("_id") == Ok(n as i32));
    fact("login with SCRAM; 1000 documents in, a cursor of ten batches", right, got.len());

    let mut session = client.start_session().await?;
    session.start_transaction().await?;
    things.insert_one(doc! {"_id": "committed"}).session(&mut session).await?;
    session.commit_transaction().await?;
    session.start_transaction().await?;
    things.insert_one(doc! {"_id": "aborted"}).session(&mut session).await?;
    session.abort_transaction().await?;
    let there = (things.find_one(doc! {"_id": "committed"}).await?.is_some(), things.find_one(doc! {"_id": "aborted"}).await?.is_some());
    fact("a transaction that commits, and one that aborts", there == (true, false), there);

    let mut stream = things.watch().max_await_time(Duration::from_millis(500)).await?;
    things.insert_one(doc! {"_id": "watched"}).await?;
    let change = stream.try_next().await?.and_then(|c| c.document_key);
    fact("a change stream", change == Some(doc! {"_id": "watched"}), &change);

    let servers = watch.lock().unwrap().servers.clone();
    fact("the driver knows of no server but the gate", servers == [format!("127.0.0.1:{}", var("GATE_PORT"))], &servers);
    Ok(())
}

fn refused(e: &Error) -> bool {
    matches!(&*e.kind, ErrorKind::Command(c) if c.code == 462) && e.contains_label("SystemOverloadedError") && e.contains_label("RetryableError")
}

async fn refusals(client: &Client, watch: &Watch) -> Result<()> {
    let things: Collection<Document> = client.database("spent").collection("things");
    for what in ["a read", "a write"] {
        clear(watch);
        let error = match what {
            "a read" => things.find_one(doc! {}).await.err(),
            _ => things.insert_one(doc! {"from": NAME}).await.err(),
        };
        fact(format!("{what} is refused with 462 and both labels"), error.as_ref().is_some_and(refused), &error);
        let seen = watch.lock().unwrap();
        let counts = (seen.began.len(), seen.closed);
        fact(format!("{what}: {ATTEMPTS} attempts, no connection is lost"), counts == (ATTEMPTS, 0), counts);
    }
    let direct = Client::with_uri_str(var("DIRECT")).await?;
    let there = direct.database("spent").collection::<Document>("things").count_documents(doc! {"from": NAME}).await?;
    fact("a refused write is not at the server", there == 0, there);
    Ok(())
}

/// Backoff is jitter times base times two to the number of the retry, counted from one.
async fn waits(client: &Client, watch: &Watch) {
    let things: Collection<Document> = client.database("spent").collection("things");
    let (mut worst, mut total, mut n) = (0f64, 0f64, 0);
    for _ in 0..10 {
        clear(watch);
        let _ = things.find_one(doc! {}).max_time(Duration::from_millis(800)).await;
        let seen = watch.lock().unwrap();
        for i in 0..seen.began.len().saturating_sub(1).min(2) {
            let Some(base) = seen.bases[i] else { continue };
            let share = (seen.began[i + 1] - seen.ended[i]).as_secs_f64() / (2.0 * base.as_secs_f64() * f64::from(1 << i));
            (worst, total, n) = (worst.max(share), total + share, n + 1);
        }
    }
    let mean = total / f64::from(n.max(1));
    brisk(
        format!("it waits between attempts as baseBackoffMS says: at most {worst:.2} of it, {mean:.2} on average of {n}"),
        n > 0 && worst < 1.5 && mean > 0.2 && mean < 0.9,
        (worst, mean, n),
    );
}

/// Eight tasks ask for about half as much again as the rate.
async fn third(client: &Client, watch: &Watch) {
    clear(watch);
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let things: Collection<Document> = client.database("third").collection("things");
        tasks.push(tokio::spawn(async move {
            let (mut done, mut failed, mut other) = (0, 0, Vec::new());
            for _ in 0..40 {
                match things.find_one(doc! {}).await {
                    Ok(_) => done += 1,
                    Err(e) if refused(&e) => failed += 1,
                    Err(e) => other.push(e.to_string()),
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            (done, failed, other)
        }));
    }
    let (mut done, mut failed, mut other) = (0, 0, Vec::new());
    for task in tasks {
        let of_one = task.await.unwrap();
        (done, failed) = (done + of_one.0, failed + of_one.1);
        other.extend(of_one.2);
    }
    let seen = watch.lock().unwrap();
    fact(
        format!("overloaded, every failure is 462 and no connection is lost: {failed} of 320 operations failed in {} attempts", seen.began.len()),
        other.is_empty() && seen.created <= 8 && seen.closed == 0 && done > 100 && done + failed == 320,
        (done, failed, other, seen.created),
    );
    let again = seen.began.len() - done;
    brisk(format!("{} % of the attempts were refused", 100 * again / seen.began.len()), again > 50, again);
}

async fn secure() -> Result<()> {
    let things: Collection<Document> = Client::with_uri_str(var("TLS")).await?.database(NAME).collection("things");
    things.insert_one(doc! {"_id": "tls"}).await?;
    fact("the same over TLS to the gate", things.find_one(doc! {"_id": "tls"}).await?.is_some(), "nothing");
    Ok(())
}

async fn squeezed() -> Result<()> {
    for how in ["zlib", "snappy"] {
        let client = Client::with_uri_str(format!("{}&compressors={how}", var("SQUEEZED"))).await?;
        let things: Collection<Document> = client.database(NAME).collection("squeezed");
        things.drop().await?;
        things.insert_many((0..200).map(|n| doc! {"_id": n, "pad": "x".repeat(200)})).await?;
        let got: Vec<Document> = things.find(doc! {}).batch_size(50).await?.try_collect().await?;
        let spent: Collection<Document> = client.database("spent").collection("things");
        let error = spent.find_one(doc! {}).max_time(Duration::from_millis(800)).await.err();
        let after = things.find_one(doc! {"_id": 7}).await?;
        fact(
            format!("compressed with {how}: 200 documents in and out, a refusal that is not, and on"),
            got.len() == 200 && error.as_ref().is_some_and(refused) && after.is_some(),
            (got.len(), &error),
        );
    }
    Ok(())
}

async fn cell() -> Result<()> {
    let watch = Watch::default();
    let client = watched(&var("GATE"), &watch).await?;
    work(&client, &watch).await?;
    refusals(&client, &watch).await?;
    waits(&client, &watch).await;
    third(&client, &watch).await;
    let wrong = Client::with_uri_str(var("WRONG")).await?;
    let error = wrong.database("db").collection::<Document>("things").find_one(doc! {}).await.err();
    fact("a wrong password is the server's answer", error.as_ref().is_some_and(|e| matches!(&*e.kind, ErrorKind::Authentication { .. })), &error);
    secure().await?;
    squeezed().await
}

#[tokio::main]
async fn main() {
    if let Err(e) = cell().await {
        fact("the cell comes to its end", false, e);
    }
    end()
}
