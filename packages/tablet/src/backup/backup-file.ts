import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { InvalidArgumentError } from "@diskmesh/domain";
import * as z from "zod";
import type { StoredDocument } from "../documents/schema.js";
import { DocumentRules, problemOfHeader } from "./backup-rules.js";

/**
 * A backup is a text of JSON lines: a header, one line per document, and an end line with the checksum of all lines
 * before it. The checksum reveals a truncated or changed file.
 */
const FORMAT = 1;
const KIND = "diskmesh backup";
/** Target length of the text's pieces. A document that is longer makes a longer piece. */
const PIECE_LENGTH = 256 * 1024;
const READ_SIZE_BYTES = 1024 * 1024;

const headerShape = z.strictObject({
  kind: z.literal(KIND),
  format: z.int().min(1),
  /** Name of the tablet in the config: "registry" or "director" unless the operator chose another one. */
  tabletName: z.string(),
  tabletId: z.string(),
  incarnation: z.string(),
  parentIncarnations: z.array(z.string()).readonly(),
  generation: z.int().min(1),
  /** Number of the last log entry, in a store that numbers them. Absent in backups of an embedded store. */
  logNumber: z.int().min(1).optional(),
  createdAtMs: z.number(),
});
const documentShape = z.strictObject({
  table: z.string(),
  key: z.string(),
  version: z.int().min(1),
  document: z.looseObject({}),
});
const endShape = z.strictObject({ documents: z.int().min(0), sha256: z.string() });

export type BackupHeader = Omit<z.output<typeof headerShape>, "kind" | "format">;

/** Yields the text of a backup in pieces. */
export function* backupPieces(header: BackupHeader, documents: Iterable<StoredDocument>): Generator<string> {
  const hash = createHash("sha256");
  let piece = `${JSON.stringify({ kind: KIND, format: FORMAT, ...header })}\n`;
  let count = 0;
  for (const { table, key, version, document } of documents) {
    piece += `${JSON.stringify({ table, key, version, document })}\n`;
    count++;
    if (piece.length < PIECE_LENGTH) continue;
    hash.update(piece);
    yield piece;
    piece = "";
  }
  hash.update(piece);
  yield `${piece}${JSON.stringify({ documents: count, sha256: hash.digest("hex") })}\n`;
}

/** Reads a whole backup. Throws InvalidArgumentError unless it is complete and unchanged. */
export async function checkBackup(path: string): Promise<{ header: BackupHeader; documents: number }> {
  const hash = createHash("sha256");
  let header: BackupHeader | undefined;
  let last = "";
  let lines = 0;
  for await (const line of linesOf(path)) {
    if (lines === 0) header = parseHeader(path, line);
    else hash.update(`${last}\n`);
    last = line;
    lines++;
  }
  const end = endShape.safeParse(parseJson(last)).data;
  if (header === undefined || end === undefined || lines < 2)
    throw wrong(path, "its end is missing: it was cut off while it was written or copied");
  if (end.sha256 !== hash.digest("hex") || end.documents !== lines - 2)
    throw wrong(path, "its checksum does not match: it was changed or damaged after it was written");
  return { header, documents: end.documents };
}

/** Yields the documents of a backup that passed `checkBackup`. */
export async function* documentsOf(path: string): AsyncGenerator<StoredDocument> {
  const rules = new DocumentRules();
  let last: string | undefined;
  let isHeader = true;
  for await (const line of linesOf(path)) {
    if (last !== undefined) {
      const json = parseJson(last);
      const { data } = documentShape.safeParse(json);
      if (data === undefined) throw wrong(path, "it has a line that is not a document");
      const problem = rules.problemOf(last, json, data);
      if (problem !== undefined) throw wrong(path, problem);
      yield data;
    }
    last = isHeader ? undefined : line;
    isHeader = false;
  }
}

/**
 * Splits at the byte 0x0A only. readline of newer Node versions also splits at U+2028 and U+2029, which JSON strings
 * may contain.
 */
async function* linesOf(path: string): AsyncGenerator<string> {
  let rest = "";
  for await (const text of createReadStream(path, { encoding: "utf8", highWaterMark: READ_SIZE_BYTES })) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() as string;
    yield* lines;
  }
  if (rest !== "") yield rest;
}

function parseHeader(path: string, line: string): BackupHeader {
  const json = parseJson(line) as { kind?: unknown; format?: unknown } | undefined;
  if (json?.kind !== KIND) throw wrong(path, "it is not a diskmesh backup");
  if (typeof json.format === "number" && json.format > FORMAT)
    throw wrong(
      path,
      `its format is ${json.format}, but this program supports at most ${FORMAT}: run the newer program`,
    );
  const { data } = headerShape.safeParse(json);
  if (data === undefined) throw wrong(path, "its first line is damaged");
  const { kind, format, ...header } = data;
  const problem = problemOfHeader(header);
  if (problem !== undefined) throw wrong(path, problem);
  return header;
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function wrong(path: string, what: string): InvalidArgumentError {
  return new InvalidArgumentError(`the backup ${path} cannot be used: ${what}`);
}
