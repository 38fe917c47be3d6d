// DynamoDB Local has no option for its address and listens on all of them. This starts it on 127.0.0.1 only.
import com.amazonaws.services.dynamodbv2.local.main.ServerRunner;
import org.eclipse.jetty.server.Connector;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

public class DynamoDBOnLoopback {
  public static void main(String[] arguments) throws Exception {
    var local = ServerRunner.createServerFromCommandLineArgs(arguments);
    var bound = 0;
    for (var field : local.getClass().getDeclaredFields()) {
      field.setAccessible(true);
      if (field.get(local) instanceof Server server) {
        for (Connector connector : server.getConnectors()) {
          ((ServerConnector) connector).setHost("127.0.0.1");
          bound++;
        }
      }
    }
    if (bound == 0) {
      throw new IllegalStateException("no connector was found: it would listen on every address");
    }
    local.start();
    local.join();
  }
}
