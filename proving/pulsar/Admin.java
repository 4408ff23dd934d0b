import java.util.Set;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.api.AuthenticationFactory;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.common.policies.data.RetentionPolicies;

/** The client of the admin interface, which is HTTP, by way of an ingress for HTTP. */
public class Admin {
  static boolean failed;

  static void fact(String what, boolean holds, Object seen) {
    failed |= !holds;
    System.out.println(holds ? "ok " + what : "not ok " + what + " - saw " + seen);
  }

  static PulsarAdmin at(String variable) throws Exception {
    return PulsarAdmin.builder().serviceHttpUrl(System.getenv(variable)).authentication(AuthenticationFactory.token(System.getenv("TOKEN"))).build();
  }

  static void work(PulsarAdmin a) throws Exception {
    String topic = "persistent://public/default/admin";
    a.topics().createPartitionedTopic(topic + "-parts", 3);
    int parts = a.topics().getPartitionedTopicMetadata(topic + "-parts").partitions;
    a.topics().createNonPartitionedTopic(topic);
    a.topics().createSubscription(topic, "s", MessageId.earliest);
    a.topics().unload(topic);
    Set<String> subscriptions = a.topics().getStats(topic).getSubscriptions().keySet();
    a.namespaces().setRetention("public/default", new RetentionPolicies(10, 10));
    int minutes = a.namespaces().getRetention("public/default").getRetentionTimeInMinutes();
    a.namespaces().removeRetention("public/default");
    a.topics().delete(topic, true);
    fact("topics, partitions, subscriptions, policies and statistics are made, read and taken away", parts == 3 && subscriptions.contains("s") && minutes == 10, parts + " " + subscriptions);
    try {
      a.topics().getStats(topic);
      fact("what is not there is the broker's 404", false, "statistics");
    } catch (PulsarAdminException.NotFoundException e) {
      fact("what is not there is the broker's 404", true, "");
    }
  }

  /** Asks more often than the ingress lets it: twice, and once more in five seconds. */
  static void refused(PulsarAdmin a) throws Exception {
    int code = 0, served = 0;
    for (int i = 0; i < 4 && code == 0; i++) {
      try {
        a.clusters().getClusters();
        served++;
      } catch (PulsarAdminException e) {
        code = e.getStatusCode();
      }
    }
    fact("one call too many is told 429, and the calls before it are served", code == 429 && served >= 2, code + " " + served);
    Thread.sleep(5500);
    fact("and after the wait the next is served", a.clusters().getClusters().contains("standalone"), "");
  }

  public static void main(String[] args) throws Exception {
    try (PulsarAdmin a = at("BROKER_ADMIN"); PulsarAdmin few = at("FEW_ADMIN")) {
      work(a);
      refused(few);
    }
    System.exit(failed ? 1 : 0);
  }
}
