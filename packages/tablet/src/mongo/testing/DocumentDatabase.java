import de.bwaldvogel.mongo.MongoCollection;
import de.bwaldvogel.mongo.MongoDatabase;
import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.CollectionOptions;
import de.bwaldvogel.mongo.backend.CursorRegistry;
import de.bwaldvogel.mongo.backend.DefaultQueryMatcher;
import de.bwaldvogel.mongo.backend.QueryResult;
import de.bwaldvogel.mongo.backend.h2.H2Backend;
import de.bwaldvogel.mongo.backend.h2.H2Collection;
import de.bwaldvogel.mongo.backend.h2.H2Database;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.wire.message.MongoMessage;
import java.util.List;
import org.h2.mvstore.MVMap;
import org.h2.mvstore.MVStore;

/**
 * A MongoDB-compatible server for tests, which keeps its data in one file. Run it with the file, the address
 * and the port, and "old" for one that is too old; it says "ready" on its standard output, and ends with its standard input.
 */
public class DocumentDatabase {
  public static void main(String[] args) throws Exception {
    DurableBackend backend = new DurableBackend(args[0]);
    if (args.length < 4) backend.version(new ModernVersion());
    MongoServer server = new MongoServer(backend);
    server.bind(args[1], Integer.parseInt(args[2]));
    System.out.println("ready");
    while (System.in.read() >= 0) {
      // Whoever started it still lives.
    }
    System.exit(0);
  }

  /**
   * By itself it writes its file once a second, and when much has changed; a test that kills it must find all that was
   * acknowledged.
   */
  private static class DurableBackend extends H2Backend {
    DurableBackend(String file) {
      super(new MVStore.Builder().fileName(file).autoCommitDisabled().autoCommitBufferSize(0).open());
    }

    @Override
    protected MongoDatabase openOrCreateDatabase(String name) {
      return new IndexedDatabase(name, getMvStore(), getCursorRegistry());
    }

    /** An inner class, because the constructor that it inherits opens collections already. */
    private class IndexedDatabase extends H2Database {
      IndexedDatabase(String name, MVStore store, CursorRegistry cursors) {
        super(name, store, cursors);
      }

      @Override
      protected MongoCollection<Object> openOrCreateCollection(String name, CollectionOptions options) {
        String fullName = getDatabaseName() + "." + name;
        // The names that the super class gives them.
        MVMap<Object, Document> data = getMvStore().openMap("databases." + fullName);
        MVMap<String, Object> meta = getMvStore().openMap("meta." + fullName);
        return new IndexedCollection(this, name, options, data, meta, cursorRegistry);
      }
    }

    /** One by one: it writes a document and its _id apart, and a commit in between would keep the one without the other. */
    @Override
    public synchronized Document handleMessage(MongoMessage message) {
      Document answer = super.handleMessage(message);
      getMvStore().commit();
      return answer;
    }
  }

  /** By itself it looks at every document unless a query names the _id alone; real servers look one up by its _id. */
  private static class IndexedCollection extends H2Collection {
    IndexedCollection(
        MongoDatabase database,
        String name,
        CollectionOptions options,
        MVMap<Object, Document> data,
        MVMap<String, Object> meta,
        CursorRegistry cursors) {
      super(database, name, options, data, meta, cursors);
    }

    @Override
    protected QueryResult queryDocuments(
        Document query, Document orderBy, int skip, int limit, int batchSize, Document fields) {
      Object id = query.get("_id");
      if (query.size() > 1 && (id instanceof String || id instanceof Number)) {
        Document byId = new Document("_id", id);
        for (Document found : super.queryDocuments(byId, new Document(), 0, 0, 0, null)) {
          if (new DefaultQueryMatcher().matches(found, query)) {
            return super.queryDocuments(byId, orderBy, skip, limit, batchSize, fields);
          }
        }
        return new QueryResult();
      }
      return super.queryDocuments(query, orderBy, skip, limit, batchSize, fields);
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
