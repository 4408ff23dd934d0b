import java.time.Duration;
import org.apache.pulsar.client.api.v5.Producer;
import org.apache.pulsar.client.api.v5.PulsarClient;
import org.apache.pulsar.client.api.v5.PulsarClientException;
import org.apache.pulsar.client.api.v5.auth.AuthenticationFactory;
import org.apache.pulsar.client.api.v5.schema.Schema;

/** The Java client, fifth version of its interface, which asks for every topic in a way of its own. */
public class Fifth {
  static boolean failed;

  static void fact(String what, boolean holds, Object seen) {
    failed |= !holds;
    System.out.println(holds ? "ok " + what : "not ok " + what + " - saw " + seen);
  }

  /** Publishes a message to what an address leads to, and says what became of it. */
  static String publish(String address) throws Exception {
    try (PulsarClient c = PulsarClient.builder().serviceUrl("pulsar://" + address).authentication(AuthenticationFactory.token(System.getenv("TOKEN")))
        .operationTimeout(Duration.ofSeconds(10)).build();
        Producer<String> p = c.newProducer(Schema.string()).topic("topic://public/default/fifth").create()) {
      p.newMessage().value("one").send();
      return "published";
    } catch (PulsarClientException e) {
      return e.getClass().getSimpleName() + ": " + e.getMessage();
    }
  }

  public static void main(String[] args) throws Exception {
    String direct = publish(System.getenv("BROKER")), through = publish(System.getenv("GATE"));
    fact("without the gate the broker is asked in the new way, and knows it", !direct.contains("FeatureNotSupported"), direct);
    fact("by way of the gate the client finds that the broker does not support it, and asks nothing", through.contains("FeatureNotSupported"), through);
    System.out.println("# " + direct);
    System.out.println("# " + through);
    System.exit(failed ? 1 : 0);
  }
}
