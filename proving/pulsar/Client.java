import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.apache.pulsar.client.api.AuthenticationFactory;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.transaction.Transaction;

/** The Java client, fourth version of its interface. */
public class Client {
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

  static ClientBuilder at(String variable) throws Exception {
    return PulsarClient.builder().serviceUrl(System.getenv(variable)).authentication(AuthenticationFactory.token(System.getenv("TOKEN")))
        .enableTransaction(true).connectionsPerBroker(1).ioThreads(1).listenerThreads(1).operationTimeout(10, TimeUnit.SECONDS);
  }

  static Consumer<byte[]> consumer(PulsarClient c, String topic) throws Exception {
    return c.newConsumer().topic(topic).subscriptionName("s").enableBatchIndexAcknowledgment(true)
        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
  }

  static List<String> receive(Consumer<byte[]> s, int n) throws Exception {
    List<String> got = new ArrayList<>();
    while (got.size() < n) {
      Message<byte[]> m = s.receive(20, TimeUnit.SECONDS);
      if (m == null) break;
      got.add(new String(m.getData()));
      s.acknowledge(m);
    }
    return got;
  }

  /** Reads until n different messages came: after an unload some come twice. */
  static boolean distinct(Consumer<byte[]> s, int n) throws Exception {
    Set<String> seen = new HashSet<>();
    while (seen.size() < n) {
      List<String> one = receive(s, 1);
      if (one.isEmpty()) return false;
      seen.addAll(one);
    }
    return seen.equals(new HashSet<>(numbers(n)));
  }

  static List<String> numbers(int n) {
    return IntStream.range(0, n).mapToObj(Integer::toString).toList();
  }

  static CompletableFuture<Void> publish(Producer<byte[]> p, int n) {
    return CompletableFuture.allOf(IntStream.range(0, n).mapToObj(i -> p.sendAsync(Integer.toString(i).getBytes())).toArray(CompletableFuture[]::new));
  }

  static void work(PulsarClient c) throws Exception {
    Producer<byte[]> p = c.newProducer().topic("java-batches").compressionType(CompressionType.SNAPPY).blockIfQueueFull(true).create();
    Consumer<byte[]> s = consumer(c, "java-batches");
    publish(p, 3000).get();
    fact("3000 messages in compressed batches, in order, acknowledged inside of batches", receive(s, 3000).equals(numbers(3000)), "");
    p = c.newProducer().topic("java-chunks").enableBatching(false).enableChunking(true).chunkMaxMessageSize(100_000).create();
    s = consumer(c, "java-chunks");
    String big = "0123456789".repeat(200_000);
    p.send(big.getBytes());
    fact("a message of 2 MB in 20 chunks", receive(s, 1).get(0).equals(big), "");
    Producer<Order> orders = c.newProducer(Schema.AVRO(Order.class)).topic("java-schema").create();
    orders.send(new Order(7));
    try (Consumer<Order> o = c.newConsumer(Schema.AVRO(Order.class)).topic("java-schema").subscriptionName("s")
        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
      fact("an Avro schema on both sides", o.receive(10, TimeUnit.SECONDS).getValue().id == 7, "");
    }
    try {
      c.newProducer(Schema.JSON(Other.class)).topic("java-schema").create();
      fact("a schema that does not fit is refused by the broker", false, "a producer");
    } catch (PulsarClientException.IncompatibleSchemaException e) {
      fact("a schema that does not fit is refused by the broker", true, "");
    }
  }

  public static class Order {
    public int id;

    public Order() {}

    public Order(int id) {
      this.id = id;
    }
  }

  public static class Other {
    public String words;
  }

  static void transactions(PulsarClient c) throws Exception {
    Producer<byte[]> p = c.newProducer().topic("java-txn").sendTimeout(0, TimeUnit.SECONDS).create();
    Consumer<byte[]> s = consumer(c, "java-txn");
    for (boolean commit : new boolean[] {false, true}) {
      Transaction t = c.newTransaction().withTransactionTimeout(1, TimeUnit.MINUTES).build().get();
      for (int i = 0; i < 5; i++) p.newMessage(t).value((commit + " " + i).getBytes()).send();
      if (commit) t.commit().get();
      else t.abort().get();
    }
    List<String> got = receive(s, 5);
    fact("a transaction that was committed is seen, one that was aborted is not", got.size() == 5 && got.get(0).equals("true 0"), got);
  }

  static void watchers(PulsarClient c) throws Exception {
    Producer<byte[]> first = c.newProducer().topic("java-watched-1").create();
    try (Consumer<byte[]> s = c.newConsumer().topicsPattern(Pattern.compile("persistent://public/default/java-watched-.*"))
        .subscriptionName("s").subscriptionType(SubscriptionType.Shared).patternAutoDiscoveryPeriod(1, TimeUnit.SECONDS).subscribe()) {
      first.send("one".getBytes());
      Producer<byte[]> second = c.newProducer().topic("java-watched-2").create();
      Thread.sleep(1500); // until the watcher has told of it
      second.send("two".getBytes());
      List<String> got = receive(s, 2);
      fact("a consumer of a pattern is told of a new topic", got.size() == 2, got);
    }
  }

  static void held(PulsarClient c) throws Exception {
    Producer<byte[]> slow = c.newProducer().topic("held-java").enableBatching(false).create();
    Producer<byte[]> fast = c.newProducer().topic("java-neighbour").enableBatching(false).create();
    Consumer<byte[]> s = consumer(c, "held-java");
    long began = System.nanoTime();
    CompletableFuture<Void> all = publish(slow, 60);
    int published = 0;
    while (!all.isDone()) {
      fast.send("x".getBytes());
      published++;
    }
    long took = (System.nanoTime() - began) / 1_000_000;
    fact("60 messages to a topic of 20 a second arrive at their rate, and none fails", !all.isCompletedExceptionally() && took > 1500, took);
    brisk("a neighbour on the same connection publishes at least 5 times as much meanwhile", published >= 300, published);
    fact("what was held is in order", receive(s, 60).equals(numbers(60)), "");
  }

  static void unloaded(PulsarClient c) throws Exception {
    Producer<byte[]> p = c.newProducer().topic("java-unloaded").enableBatching(false).create();
    Producer<byte[]> slow = c.newProducer().topic("held-java-unloaded").enableBatching(false).create();
    Consumer<byte[]> s = consumer(c, "java-unloaded");
    Consumer<byte[]> h = consumer(c, "held-java-unloaded");
    CompletableFuture<Void> all = publish(slow, 60);
    HttpClient http = HttpClient.newHttpClient();
    AtomicInteger unloads = new AtomicInteger();
    long began = System.nanoTime();
    Thread unload = new Thread(() -> {
      while (System.nanoTime() - began < 2_500_000_000L) {
        for (String topic : new String[] {"java-unloaded", "held-java-unloaded"}) {
          HttpRequest r = HttpRequest.newBuilder(URI.create(System.getenv("BROKER_ADMIN") + "/admin/v2/persistent/public/default/" + topic + "/unload"))
              .PUT(HttpRequest.BodyPublishers.noBody()).build();
          try {
            if (http.send(r, HttpResponse.BodyHandlers.discarding()).statusCode() < 300) unloads.incrementAndGet();
            Thread.sleep(200);
          } catch (Exception e) {
            throw new RuntimeException(e);
          }
        }
      }
    });
    unload.start();
    int n = 0;
    while (unload.isAlive()) p.send(Integer.toString(n++).getBytes());
    all.get(60, TimeUnit.SECONDS);
    fact("the topic is unloaded while its producer publishes: no message is lost", unloads.get() > 2 && distinct(s, n), unloads + " " + n);
    fact("nor is one of a held producer", distinct(h, 60), "");
  }

  static void refused() throws Exception {
    try (PulsarClient c = at("FEW_URL").operationTimeout(3, TimeUnit.SECONDS).build()) {
      Producer<byte[]> first = c.newProducer().topic("java-few-1").create();
      long began = System.nanoTime();
      try {
        c.newProducer().topic("java-few-2").create();
        fact("a producer too many is refused", false, "a producer");
      } catch (PulsarClientException e) {
        long took = (System.nanoTime() - began) / 1_000_000;
        first.send("x".getBytes());
        fact("a producer too many is tried again " + (took > 1000 ? "until the operation's time is over" : "not at all") + ", and the connection stays", true, "");
      }
    }
  }

  public static void main(String[] args) throws Exception {
    try (PulsarClient c = at("GATE_URL").build()) {
      work(c);
      transactions(c);
      watchers(c);
      held(c);
      unloaded(c);
    }
    refused();
    try (PulsarClient c = at("GATE_TLS_URL").tlsTrustCertsFilePath(System.getenv("CERT")).build()) {
      Producer<byte[]> p = c.newProducer().topic("java-tls").create();
      Consumer<byte[]> s = consumer(c, "java-tls");
      publish(p, 100).get();
      fact("the same over TLS to the gate, with a token", receive(s, 100).equals(numbers(100)), "");
    }
    System.exit(failed ? 1 : 0);
  }
}
