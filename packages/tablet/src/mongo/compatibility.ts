import type { Fields } from "./document-server.js";

const MAJOR_VERSION_MIN = 5;

/** Returns why a server with this `buildInfo` cannot store a tablet, with the remedy; undefined when it can. */
export function engineProblem({ version, ferretdbVersion }: Fields): string | undefined {
  // Refuses FerretDB before version 2. FerretDB 2 has a different architecture and reports its version in another way.
  if (typeof ferretdbVersion === "string" && !/^v?[2-9]/.test(ferretdbVersion))
    return `it is FerretDB ${JSON.stringify(ferretdbVersion.slice(0, 40))}, which lets two conditional writes win; use FerretDB 2 or MongoDB`;
  const major = typeof version === "string" ? Number.parseInt(version, 10) : Number.NaN;
  return major < MAJOR_VERSION_MIN
    ? `its version is ${JSON.stringify(String(version).slice(0, 40))}; use MongoDB ${MAJOR_VERSION_MIN} or newer`
    : undefined;
}

/** Properties of a collection: its entry of listCollections, its indexes, and on mongos its shard key. */
export interface CollectionFacts {
  readonly type?: unknown;
  readonly options?: Fields | undefined;
  readonly indexes: readonly Fields[];
  readonly shardKey?: Fields | undefined;
}

const MAKE_PLAIN = "copy its documents into a plain collection, drop it, and rename the copy";

/** Returns why a collection would lose or hide a tablet's documents, with the remedy; undefined when it would not. */
export function collectionProblem({ type, options = {}, indexes, shardKey }: CollectionFacts): string | undefined {
  if (type === "view" || options.viewOn !== undefined) return "it is a view, which takes no writes: drop it";
  if (type === "timeseries" || options.timeseries !== undefined)
    return `it is a time series, whose documents cannot be replaced: ${MAKE_PLAIN}`;
  if (options.capped) return `it is capped and drops its oldest documents: ${MAKE_PLAIN}`;
  if (options.expireAfterSeconds !== undefined) return `it drops documents after a time: ${MAKE_PLAIN}`;
  const locale = (options.collation as Fields | undefined)?.locale;
  if (locale !== undefined && locale !== "simple")
    return `it has a default collation, by which different ids may count as one: ${MAKE_PLAIN}`;
  const ttl = indexes.find(({ expireAfterSeconds }) => expireAfterSeconds !== undefined);
  if (ttl !== undefined) return `its index ${JSON.stringify(ttl.name)} deletes documents after a time: drop that index`;
  if (shardKey !== undefined && Object.keys(shardKey).join() !== "_id")
    return `it is sharded by ${JSON.stringify(shardKey)}, so that two documents can have one _id: shard it by _id, or not at all`;
  return undefined;
}
