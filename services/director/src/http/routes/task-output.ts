import { Readable } from "node:stream";
import { TaskOutputType } from "@diskmesh/api/director";
import { getTaskOutput } from "../../tasks/handlers.js";
import { type Answer, empty, text } from "../answer.js";
import type { Context } from "../context.js";
import type { HttpCall } from "../route.js";

/** Maximum size of an output that is buffered. Larger outputs are read twice instead. */
const MAX_KEPT_BYTES = 256 * 1024;
/** Maximum number of remembered read positions, from which clients continue. */
const MAX_PLACES = 1_000;

interface Place {
  readonly line: number;
  readonly offset: number;
}

interface Wanted {
  readonly taskId: number;
  readonly type: string;
}

/** Output types by their names in BOSH's API. */
const TYPES: ReadonlyMap<string, TaskOutputType> = new Map([
  ["event", TaskOutputType.EVENT],
  ["result", TaskOutputType.RESULT],
  ["debug", TaskOutputType.DEBUG],
  ["cpi", TaskOutputType.CPI],
]);

/** Ends of the last reads by context; the next read usually continues there. */
const places = new WeakMap<Context, Map<string, Place>>();

/** Yields a task's output from a byte offset to the present end. */
async function* bytesFrom({ context, call }: HttpCall, { taskId, type }: Wanted, from: number): AsyncGenerator<Buffer> {
  const known = placesOf(context);
  const key = `${taskId} ${type}`;
  const place = known.get(key);
  let { line, offset } = place !== undefined && place.offset <= from ? place : { line: 0, offset: 0 };
  for (;;) {
    const page = { taskId, type: TYPES.get(type) ?? TaskOutputType.UNSPECIFIED, fromLine: line, maxLines: 0 };
    const { lines, nextLine } = await getTaskOutput(context, page, call);
    if (lines.length === 0) break;
    const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(""), "utf8");
    const skipped = Math.max(0, from - offset);
    if (skipped < bytes.length) yield bytes.subarray(skipped);
    line = nextLine;
    offset += bytes.length;
  }
  known.delete(key);
  known.set(key, { line, offset });
  const [oldest] = known.keys();
  if (known.size > MAX_PLACES && oldest !== undefined) known.delete(oldest);
}

function placesOf(context: Context): Map<string, Place> {
  const known = places.get(context) ?? new Map<string, Place>();
  places.set(context, known);
  return known;
}

/** Returns the output or the part selected by a Range header; 416 when the range begins at or after the end. */
export async function outputAnswer(http: HttpCall, wanted: Wanted): Promise<Answer> {
  const range = rangeOf(http.request.headers.range);
  const from = range?.from ?? 0;
  const kept: Buffer[] = [];
  let sizeBytes = 0;
  for await (const bytes of bytesFrom(http, wanted, from)) {
    sizeBytes += bytes.length;
    if (sizeBytes <= MAX_KEPT_BYTES) kept.push(bytes);
  }
  if (range === undefined) return text(body(sizeBytes));
  if (sizeBytes === 0) return { ...empty(416), headers: { "content-range": "bytes */*" } };
  const length = Math.min(sizeBytes, range.to - from + 1);
  const headers = { "content-range": `bytes ${from}-${from + length - 1}/${from + sizeBytes}` };
  return text(body(length), 206, headers);

  function body(length: number): Readable {
    const source = sizeBytes <= MAX_KEPT_BYTES ? kept : bytesFrom(http, wanted, from);
    return Readable.from(upTo(source, length));
  }
}

/** Yields the first `length` bytes; lines added in the meantime are left to the next read. */
async function* upTo(source: Iterable<Buffer> | AsyncIterable<Buffer>, length: number): AsyncGenerator<Buffer> {
  let left = length;
  for await (const bytes of source) {
    yield bytes.subarray(0, left);
    left -= bytes.length;
    if (left <= 0) return;
  }
}

/**
 * Parses a single range with a start. Returns undefined for any other header, so that the whole output is returned, as
 * HTTP permits.
 */
function rangeOf(header: string | undefined): { readonly from: number; readonly to: number } | undefined {
  const [, from, to] = /^bytes=(\d{1,15})-(\d{0,15})$/.exec(header ?? "") ?? [];
  if (from === undefined || to === undefined) return undefined;
  const range = { from: Number(from), to: to === "" ? Number.MAX_SAFE_INTEGER : Number(to) };
  return range.to < range.from ? undefined : range;
}
