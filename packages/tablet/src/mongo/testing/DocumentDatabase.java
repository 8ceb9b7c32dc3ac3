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
 * A MongoDB-compatible server for tests that keeps its data in one file. Arguments: the file, the address, the port,
 * and optionally "old" for a version that the driver refuses. Prints "ready", and ends with its standard input.
 */
public class DocumentDatabase {
  public static void main(String[] args) throws Exception {
    DurableBackend backend = new DurableBackend(args[0]);
    if (args.length < 4) backend.version(new ModernVersion());
    MongoServer server = new MongoServer(backend);
    server.bind(args[1], Integer.parseInt(args[2]));
    System.out.println("ready");
    while (System.in.read() >= 0) {
      // The parent process is still alive.
    }
    System.exit(0);
  }

  /**
   * Commits the file after each message, because a test that kills the server must find every acknowledged write; the
   * super class commits once a second.
   */
  private static class DurableBackend extends H2Backend {
    DurableBackend(String file) {
      super(new MVStore.Builder().fileName(file).autoCommitDisabled().autoCommitBufferSize(0).open());
    }

    @Override
    protected MongoDatabase openOrCreateDatabase(String name) {
      return new IndexedDatabase(name, getMvStore(), getCursorRegistry());
    }

    /** An inner class, because the inherited constructor already opens collections. */
    private class IndexedDatabase extends H2Database {
      IndexedDatabase(String name, MVStore store, CursorRegistry cursors) {
        super(name, store, cursors);
      }

      @Override
      protected MongoCollection<Object> openOrCreateCollection(String name, CollectionOptions options) {
        String fullName = getDatabaseName() + "." + name;
        // The same names as in the super class.
        MVMap<Object, Document> data = getMvStore().openMap("databases." + fullName);
        MVMap<String, Object> meta = getMvStore().openMap("meta." + fullName);
        return new IndexedCollection(this, name, options, data, meta, cursorRegistry);
      }
    }

    /** Synchronized: a document and its _id are written apart, and a commit in between would keep only one of them. */
    @Override
    public synchronized Document handleMessage(MongoMessage message) {
      Document answer = super.handleMessage(message);
      getMvStore().commit();
      return answer;
    }
  }

  /** Finds documents by _id as real servers do; the super class scans all documents unless a query has only the _id. */
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

  /** A version number that the driver accepts; the newest one that the library names is too old. */
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
