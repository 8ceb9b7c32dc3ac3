/** A child process for tests: restores a backup into the tablet in a folder, replacing it. */
import { restoreBackup } from "../../backup/restore.js";
import { openEmbeddedStorage } from "../embedded-storage.js";
import { counted } from "./counted-tablet.js";

const [, , folder, file] = process.argv as [string, string, string, string];
const storage = openEmbeddedStorage({ folder });
await restoreBackup({ file, schema: counted, storage, tabletName: "registry", replace: true });
