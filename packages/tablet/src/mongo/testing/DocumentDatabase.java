import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.h2.H2Backend;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.wire.message.MongoMessage;
import java.util.List;

/**
 * A MongoDB-compatible server for tests, which keeps its data in one file. Run it with the file and the port, and
 * "old" for one that is too old; it says "ready" on its standard output, and ends with its standard input.
 */
public class DocumentDatabase {
  public static void main(String[] args) throws Exception {
    DurableBackend backend = new DurableBackend(args[0]);
    if (args.length < 3) backend.version(new ModernVersion());
    MongoServer server = new MongoServer(backend);
    server.bind("127.0.0.1", Integer.parseInt(args[1]));
    System.out.println("ready");
    while (System.in.read() >= 0) {
      // Whoever started it still lives.
    }
    System.exit(0);
  }

  /** By itself it writes its file once a second; a test that kills it must find all that was acknowledged. */
  private static class DurableBackend extends H2Backend {
    DurableBackend(String file) {
      super(file);
    }

    @Override
    public Document handleMessage(MongoMessage message) {
      Document answer = super.handleMessage(message);
      getMvStore().commit();
      return answer;
    }
  }

  /** The newest version it knows by name is too old for the driver, which needs nothing newer of it than the number. */
  private static class ModernVersion implements MongoVersion {
    @Override
    public List<Integer> getVersionArray() {
      return List.of(5, 0, 0);
    }

    @Override
    public int getWireVersion() {
      return 13;
    }
  }
}
