import com.mongodb.ConnectionString;
import com.mongodb.MongoClientSettings;
import com.mongodb.MongoException;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.connection.ServerDescription;
import com.mongodb.event.CommandFailedEvent;
import com.mongodb.event.CommandListener;
import com.mongodb.event.CommandStartedEvent;
import com.mongodb.event.ConnectionClosedEvent;
import com.mongodb.event.ConnectionPoolListener;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.bson.Document;

/** Java's driver: work, refusals, and what this generation makes of them. */
public class Driver {
  static boolean failed;

  static void fact(String what, boolean holds, Object seen) {
    failed |= !holds;
    System.out.println(holds ? "ok " + what : "not ok " + what + " - saw " + seen);
  }

  /** Tells one that is about speed, which is not judged on a busy machine. */
  static void brisk(String what, boolean holds, Object seen) {
    double load = java.lang.management.ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage();
    if (!holds && load > 3 * Runtime.getRuntime().availableProcessors()) {
      System.out.println("# not judged at a load of " + load + ": " + what + " - saw " + seen);
      return;
    }
    fact(what, holds, seen);
  }

  static final boolean RETRIES = !System.getenv("GENERATION").equals("absent");
  static final List<Long> began = Collections.synchronizedList(new ArrayList<>());
  static final List<Long> ended = Collections.synchronizedList(new ArrayList<>());
  static final List<Integer> bases = Collections.synchronizedList(new ArrayList<>());
  static final AtomicInteger closed = new AtomicInteger();

  static void clear() {
    began.clear();
    ended.clear();
    bases.clear();
    closed.set(0);
  }

  /** Notes attempts and new connections. */
  static class Watch implements CommandListener, ConnectionPoolListener {
    public void commandStarted(CommandStartedEvent e) {
      if (e.getCommandName().equals("find") || e.getCommandName().equals("insert")) began.add(System.nanoTime());
    }

    public void commandFailed(CommandFailedEvent e) {
      ended.add(System.nanoTime());
      if (e.getThrowable() instanceof com.mongodb.MongoCommandException c) {
        bases.add(c.getResponse().containsKey("baseBackoffMS") ? c.getResponse().getNumber("baseBackoffMS").intValue() : 100);
      }
    }

    public void connectionClosed(ConnectionClosedEvent e) {
      closed.incrementAndGet();
      System.out.println("# closed: " + e.getReason());
    }
  }

  static MongoException refused(Runnable op) {
    try {
      op.run();
      return null;
    } catch (MongoException e) {
      return e;
    }
  }

  static void work(MongoClient client) {
    MongoCollection<Document> things = client.getDatabase("java").getCollection("things");
    things.drop();
    things.insertMany(IntStream.range(0, 1000).mapToObj(n -> new Document("_id", n)).toList());
    int n = 0;
    for (Document d : things.find().sort(new Document("_id", 1)).batchSize(100)) n += d.getInteger("_id") == n ? 1 : 0;
    fact("login with SCRAM; 1000 documents in, a cursor of ten batches", n == 1000, n);
    try (ClientSession session = client.startSession()) {
      session.withTransaction(() -> things.insertOne(session, new Document("_id", "committed")));
    }
    fact("a transaction", things.find(new Document("_id", "committed")).first() != null, "");
    try (var stream = things.watch().maxAwaitTime(500, TimeUnit.MILLISECONDS).cursor()) {
      things.insertOne(new Document("_id", "watched"));
      fact("a change stream", stream.next().getDocumentKey().getString("_id").getValue().equals("watched"), "");
    }
    List<String> servers = client.getClusterDescription().getServerDescriptions().stream().map(ServerDescription::getAddress).map(Object::toString).toList();
    fact("the driver knows of no server but the gate", servers.equals(List.of("127.0.0.1:" + System.getenv("GATE_PORT"))), servers);
  }

  static void refusals(MongoClient client) {
    MongoCollection<Document> things = client.getDatabase("spent").getCollection("things");
    int attempts = RETRIES ? 3 : 1;
    for (String what : new String[] {"a read", "a write"}) {
      clear();
      MongoException e = refused(what.equals("a read") ? () -> things.find().first() : () -> things.insertOne(new Document("from", "java")));
      fact(what + " is refused with 462 and both labels", e != null && e.getCode() == 462 && e.hasErrorLabel("SystemOverloadedError") && e.hasErrorLabel("RetryableError"), e);
      // 5.12 now and then replaces a connection as stale between the two, since the server's second streamed hello answers another request.
      fact(what + ": " + attempts + (RETRIES ? " attempts" : " attempt"), began.size() == attempts, began.size());
    }
    try (MongoClient direct = MongoClients.create(System.getenv("DIRECT"))) {
      fact("a refused write is not at the server", direct.getDatabase("spent").getCollection("things").countDocuments(new Document("from", "java")) == 0, "");
    }
  }

  /** Backoff is jitter times base times two to the number of the retry, which is counted from one. */
  static void waits(MongoClient client) {
    double worst = 0;
    double total = 0;
    int n = 0;
    for (int round = 0; round < 10; round++) {
      clear();
      refused(() -> client.getDatabase("spent").getCollection("things").find().maxTime(800, TimeUnit.MILLISECONDS).first());
      for (int i = 0; i < Math.min(2, began.size() - 1); i++) {
        double share = (began.get(i + 1) - ended.get(i)) / 1e6 / (bases.get(i) << i + 1);
        worst = Math.max(worst, share);
        total += share;
        n++;
      }
    }
    brisk(String.format("it waits between attempts as baseBackoffMS says: at most %.2f of it, %.2f on average of %d", worst, total / n, n), worst < 1.5 && total / n > 0.2 && total / n < 0.9, n);
  }

  /** Eight ask for about half as much again as the rate. */
  static void third(MongoClient client) throws InterruptedException {
    clear();
    AtomicInteger done = new AtomicInteger();
    AtomicInteger failures = new AtomicInteger();
    List<Thread> threads = new ArrayList<>();
    for (int t = 0; t < 8; t++) {
      Thread thread = new Thread(() -> {
        for (int i = 0; i < 40; i++) {
          MongoException e = refused(() -> client.getDatabase("third").getCollection("things").find().first());
          if (e == null) done.incrementAndGet();
          else if (e.getCode() == 462) failures.incrementAndGet();
          try {
            Thread.sleep(100);
          } catch (InterruptedException stop) {
            return;
          }
        }
      });
      thread.start();
      threads.add(thread);
    }
    for (Thread thread : threads) thread.join();
    fact("overloaded, every failure is 462: " + failures + " of 320 operations failed in " + began.size() + " attempts", done.get() + failures.get() == 320 && done.get() > 100, done + " " + closed);
    int again = began.size() - done.get();
    brisk(100 * again / began.size() + " % of the attempts were refused", again > 50, again);
  }

  static void squeezed() {
    try (MongoClient client = MongoClients.create(System.getenv("SQUEEZED") + "&compressors=zlib")) {
      MongoCollection<Document> things = client.getDatabase("java").getCollection("squeezed");
      things.drop();
      things.insertMany(IntStream.range(0, 200).mapToObj(n -> new Document("_id", n).append("pad", "x".repeat(200))).toList());
      int n = 0;
      for (Document d : things.find().batchSize(50)) n++;
      MongoException e = refused(() -> client.getDatabase("spent").getCollection("things").find().maxTime(800, TimeUnit.MILLISECONDS).first());
      Document after = things.find(new Document("_id", 7)).first();
      fact("compressed with zlib: 200 documents in and out, a refusal that is not, and on", n == 200 && e != null && e.getCode() == 462 && after != null, n + " " + e);
    }
  }

  public static void main(String[] args) throws Exception {
    Watch watch = new Watch();
    MongoClientSettings settings = MongoClientSettings.builder().applyConnectionString(new ConnectionString(System.getenv("GATE")))
        .addCommandListener(watch).applyToConnectionPoolSettings(p -> p.addConnectionPoolListener(watch)).build();
    try (MongoClient client = MongoClients.create(settings)) {
      work(client);
      refusals(client);
      if (RETRIES) waits(client);
      third(client);
    }
    try (MongoClient wrong = MongoClients.create(System.getenv("WRONG") + "&serverSelectionTimeoutMS=5000")) {
      MongoException e = refused(() -> wrong.getDatabase("db").getCollection("things").find().first());
      fact("a wrong password is the server's answer", e instanceof com.mongodb.MongoSecurityException, e);
    }
    squeezed();
    System.exit(failed ? 1 : 0);
  }
}
