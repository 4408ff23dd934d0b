import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import javax.sql.ConnectionEvent;
import javax.sql.ConnectionEventListener;
import javax.sql.PooledConnection;
import org.postgresql.ds.PGConnectionPoolDataSource;

/** pgjdbc: plain, in HikariCP, and as the pooled connection that application servers use. */
public class Pgjdbc {
  static boolean failed;

  static void fact(String what, boolean holds, Object seen) {
    failed |= !holds;
    System.out.println(holds ? "ok " + what : "not ok " + what + " - saw " + seen);
  }

  static String url(String port) {
    return "jdbc:postgresql://127.0.0.1:" + System.getenv(port) + "/app?user=driver&password=secret&ApplicationName=prove";
  }

  static int number(Connection c, String sql) throws SQLException {
    try (Statement s = c.createStatement(); ResultSet r = s.executeQuery(sql)) {
      r.next();
      return r.getInt(1);
    }
  }

  static void call(Connection c, String name) throws SQLException {
    try (Statement s = c.createStatement()) {
      s.execute("set application_name = '" + name + "'");
    }
  }

  /** The SQLSTATE that a statement fails with, or nothing. */
  static String state(Connection c) {
    try {
      number(c, "select 1");
      return "";
    } catch (SQLException e) {
      return e.getSQLState();
    }
  }

  static final String PID = "select pg_backend_pid()";

  static void plain() throws SQLException {
    try (Connection c = DriverManager.getConnection(url("GATE"))) {
      int mine = number(c, PID);
      c.setAutoCommit(false);
      try (Statement s = c.createStatement()) {
        s.execute("create temp table things (n int, word text)");
      }
      try (PreparedStatement s = c.prepareStatement("insert into things values (?, ?)")) {
        for (int n = 0; n < 2000; n++) {
          s.setInt(1, n);
          s.setString(2, "word " + n);
          s.addBatch();
        }
        s.executeBatch();
      }
      int rows = 0;
      try (Statement s = c.createStatement()) {
        s.setFetchSize(100);
        try (ResultSet r = s.executeQuery("select n from things")) {
          while (r.next()) rows++;
        }
      }
      c.commit();
      c.setAutoCommit(true);
      fact("a batch of 2000 and a result that is fetched by the hundred, in one transaction", rows == 2000, rows);
      boolean good = true;
      try (PreparedStatement s = c.prepareStatement("select ?::int")) {
        for (int n = 0; n < 12; n++) { // pgjdbc names the statement at the fifth time
          s.setInt(1, n);
          try (ResultSet r = s.executeQuery()) {
            r.next();
            good &= r.getInt(1) == n;
          }
        }
      }
      fact("a statement that pgjdbc prepares at the server after five times", good, "");
      call(c, "full");
      fact("a full partition is SQLSTATE 53000", state(c).equals("53000"), state(c));
      call(c, "rated");
      fact("a spent rate is SQLSTATE 53400", state(c).equals("53400"), state(c));
      call(c, "prove");
      fact("the connection stays", c.isValid(5) && number(c, PID) == mine, "");
    }
  }

  static void hikari() throws SQLException {
    HikariConfig config = new HikariConfig();
    config.setJdbcUrl(url("GATE"));
    config.setMaximumPoolSize(1);
    try (HikariDataSource pool = new HikariDataSource(config)) {
      int mine;
      String state;
      try (Connection c = pool.getConnection()) {
        mine = number(c, PID);
        call(c, "full");
        state = state(c);
        call(c, "prove");
      }
      try (Connection c = pool.getConnection()) {
        int again = number(c, PID);
        fact("HikariCP keeps a connection that was refused", state.equals("53000") && mine == again, state + " " + mine + " " + again);
      }
    }
  }

  static void hikariAtTheDoor() throws Exception {
    Connection held = DriverManager.getConnection(url("DOOR"));
    try {
      DriverManager.getConnection(url("DOOR")).close();
      fact("a full door is SQLSTATE 53300", false, "a connection");
    } catch (SQLException e) {
      fact("a full door is SQLSTATE 53300", "53300".equals(e.getSQLState()), e.getSQLState());
    }
    HikariConfig config = new HikariConfig();
    config.setJdbcUrl(url("DOOR"));
    config.setMaximumPoolSize(1);
    config.setInitializationFailTimeout(-1);
    config.setConnectionTimeout(20_000);
    try (HikariDataSource pool = new HikariDataSource(config)) {
      new Thread(() -> {
        try {
          Thread.sleep(500);
          held.close();
        } catch (Exception e) {
          e.printStackTrace();
        }
      }).start();
      try (Connection c = pool.getConnection()) {
        fact("HikariCP tries again until there is a place", held.isClosed() && number(c, PID) > 0, "");
      }
    }
  }

  /** What an application server's pool does: it listens for connections that died. */
  static int deaths(String port, String wanted) throws SQLException {
    PGConnectionPoolDataSource source = new PGConnectionPoolDataSource();
    source.setUrl(url(port));
    PooledConnection pooled = source.getPooledConnection();
    int[] died = {0};
    pooled.addConnectionEventListener(new ConnectionEventListener() {
      public void connectionClosed(ConnectionEvent e) {}

      public void connectionErrorOccurred(ConnectionEvent e) {
        died[0]++;
      }
    });
    try (Connection c = pooled.getConnection()) {
      call(c, "full");
      String state = state(c);
      fact("PGConnectionPoolDataSource is refused with " + wanted, state.equals(wanted), state);
    }
    pooled.close();
    return died[0];
  }

  static void pooled() throws SQLException {
    int died = deaths("GATE", "53000");
    fact("it calls a connection dead that was refused with class 53", died == 1, died);
    died = deaths("MAPPED", "55000");
    fact("with postgres.sqlstate 55000 it keeps it", died == 0, died);
  }

  public static void main(String[] args) throws Exception {
    plain();
    hikari();
    hikariAtTheDoor();
    pooled();
    System.exit(failed ? 1 : 0);
  }
}
