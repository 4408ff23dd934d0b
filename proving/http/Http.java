import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;

/** Java's HttpClient. It asks for an upgrade to HTTP/2 with each connection, unless told not to. */
public class Http {
  static boolean failed;

  static void fact(String what, boolean holds, Object seen) {
    failed |= !holds;
    System.out.println(holds ? "ok " + what : "not ok " + what + " - saw " + seen);
  }

  static final String PLAIN = System.getenv("PLAIN");

  static HttpRequest.Builder ask(String path, String tenant) {
    return HttpRequest.newBuilder(URI.create(PLAIN + path)).header("X-Tenant", tenant);
  }

  static HttpResponse<String> send(HttpClient c, HttpRequest.Builder r) throws Exception {
    return c.send(r.build(), HttpResponse.BodyHandlers.ofString());
  }

  public static void main(String[] args) throws Exception {
    for (HttpClient.Version version : HttpClient.Version.values()) {
      HttpClient c = HttpClient.newBuilder().version(version).build();
      HttpResponse<String> first = send(c, ask("/java", "other"));
      fact(version + ", as it comes: answered over " + first.version(), first.statusCode() == 200, first.statusCode());
      HttpResponse<String> up = send(c, ask("/up", "other").POST(HttpRequest.BodyPublishers.ofByteArray(new byte[1_000_000])));
      fact(version + ": 1 MB up", up.body().contains("\"size\":1000000"), up.body());
      HttpResponse<String> refused = send(c, ask("/refused", "full").POST(HttpRequest.BodyPublishers.ofByteArray(new byte[1_000_000])));
      fact(version + ": a refused upload is 503 with a wait", refused.statusCode() == 503 && refused.headers().firstValueAsLong("retry-after").orElse(0) >= 1, refused.statusCode());
      List<CompletableFuture<Integer>> many = IntStream.range(0, 200)
          .mapToObj(n -> c.sendAsync(ask("/many", n % 2 == 0 ? "other" : "full").build(), HttpResponse.BodyHandlers.ofString()).thenApply(HttpResponse::statusCode)).toList();
      boolean good = true;
      for (int n = 0; n < many.size(); n++) good &= many.get(n).join() == (n % 2 == 0 ? 200 : 503);
      fact(version + ": refusals among 200 requests at once", good, many);
    }
    HttpClient c = HttpClient.newHttpClient();
    send(c, ask("/beat-java", "beat-java"));
    HttpResponse<String> refused = send(c, ask("/beat-java", "beat-java"));
    long wait = refused.headers().firstValueAsLong("retry-after").orElse(0);
    Thread.sleep(wait * 1000);
    HttpResponse<String> again = send(c, ask("/beat-java", "beat-java"));
    fact("who waits Retry-After gets through", refused.statusCode() == 429 && again.statusCode() == 200, refused.statusCode() + " " + wait + " " + again.statusCode());
    System.exit(failed ? 1 : 0);
  }
}
