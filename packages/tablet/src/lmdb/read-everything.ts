/**
 * A process that reads a data file, all of its pages and, unless it is large, all of their values, then writes to it as the first thing that is done with it does, if its format
 * is the one that is named. What it finds wrong it says on stdout.
 */
import { statSync, writeSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "@diskmesh/domain";
import { open } from "lmdb";
import { LMDB_OPTIONS } from "./lmdb-options.js";

const [path, format] = process.argv.slice(2) as [string, string];
const META = "_meta";
/** Above it the values are left out: they would make a load a fifth longer. */
const VALUES_SIZE_BYTES_MAX = 64 * 2 ** 20;

function fail(error: unknown): never {
  writeSync(1, messageOf(error));
  process.exit(1);
}

process.on("uncaughtException", fail).on("unhandledRejection", fail);
const isLarge = statSync(join(path, "data.mdb")).size > VALUES_SIZE_BYTES_MAX;
const root = open<Buffer, Buffer>({ ...LMDB_OPTIONS, path, encoding: "binary" });
for (const name of [...root.getKeys()]) {
  const database = root.openDB<Buffer, Buffer>({ name: `${name}`, encoding: "binary", keyEncoding: "binary" });
  if (isLarge) database.getCount({});
  else for (const { value } of database.getRange()) if (value === undefined) throw new Error("a value is missing");
}
const meta = root.openDB<Buffer, Buffer>({ name: META, encoding: "binary", keyEncoding: "binary" });
const key = Buffer.from("format");
const found = meta.get(key);
if (found?.toString() === format) await root.childTransaction(() => meta.putSync(key, found)).catch(failIfDamaged);
process.exit(0);

/** Errors of the system, such as a full disk, are for whoever opens the file to meet. */
async function failIfDamaged(error: { readonly code?: unknown; readonly commitError?: Promise<never> }): Promise<void> {
  const { code } = error.commitError === undefined ? error : await error.commitError.catch((reason) => reason);
  if (typeof code !== "number" || code < 0) fail(error);
}
