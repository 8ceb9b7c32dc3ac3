/**
 * Test support for packages that use a tablet: a MongoDB-compatible server, and a separate database or folder per
 * tablet.
 */
export { randomOf } from "../contract/random.js";
export {
  type DatabasePlace,
  type DatabaseProcess,
  documentDatabase,
  fetchDocumentDatabase,
  newDocumentDatabase,
} from "../mongo/testing/document-database.js";
export { databaseUrl, newTabletName, removeTablet, withDatabase } from "../mongo/testing/test-location.js";
export { TlsProxy } from "../mongo/testing/tls-proxy.js";
export { ensureTablet } from "./ensure-tablet.js";
export { restoredBackup } from "./first-release.js";
