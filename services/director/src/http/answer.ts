import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";

/** The response of a route. */
export interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer | Readable;
}

const JSON_TYPE = { "content-type": "application/json" };
const TEXT_TYPE = { "content-type": "text/plain; charset=utf-8" };

export function json(value: unknown, status = 200): Answer {
  return { status, headers: JSON_TYPE, body: JSON.stringify(value) };
}

export function text(body: string | Readable, status = 200, headers: Readonly<Record<string, string>> = {}): Answer {
  return { status, headers: { ...TEXT_TYPE, ...headers }, body };
}

/** Keeps a document of a vendor's driver from running scripts and from the page's session. */
const SANDBOX = { "content-security-policy": "sandbox; default-src 'none'" };

/**
 * Returns the result of a vendor's method: JSON, or bytes. Browsers save bytes and never show them, because they may be
 * anything, unless the method has a media type.
 */
export function methodAnswer(
  value: unknown,
  { attach, contentType }: { readonly attach: boolean; readonly contentType: string },
): Answer {
  if (!Buffer.isBuffer(value)) return json(value);
  const isText = contentType.startsWith("text/") && !contentType.includes(";");
  const type = contentType === "" ? "application/octet-stream" : `${contentType}${isText ? "; charset=utf-8" : ""}`;
  const saved = (attach || contentType === "") && { "content-disposition": "attachment" };
  return { status: 200, headers: { "content-type": type, ...saved, ...SANDBOX }, body: value };
}

export function empty(status: number): Answer {
  return { status };
}

/** Returns a redirect to the task, which clients follow. */
export function toTask(taskId: number | undefined): Answer {
  return { status: 302, headers: { location: `/tasks/${taskId ?? 0}` } };
}

/**
 * Streams a JSON list, so that the list is never whole in memory. Errors before the first page are thrown; later errors
 * abort the connection.
 */
export async function jsonList<Item>(pages: AsyncGenerator<readonly Item[]>): Promise<Answer> {
  const first = await pages.next();
  return { status: 200, headers: JSON_TYPE, body: Readable.from(listText(first, pages)) };
}

/** Streams a JSON object of lists by name. */
export function jsonLists(lists: Readonly<Record<string, AsyncGenerator<readonly object[]>>>): Answer {
  return { status: 200, headers: JSON_TYPE, body: Readable.from(listsText(lists)) };
}

async function* listsText(lists: Readonly<Record<string, AsyncGenerator<readonly object[]>>>): AsyncGenerator<string> {
  let separator = "{";
  for (const [name, pages] of Object.entries(lists)) {
    yield `${separator}${JSON.stringify(name)}:`;
    yield* listText(await pages.next(), pages);
    separator = ",";
  }
  yield "}\n";
}

async function* listText<Item>(
  first: IteratorResult<readonly Item[]>,
  pages: AsyncGenerator<readonly Item[]>,
): AsyncGenerator<string> {
  yield "[";
  let separator = "";
  for (let page = first; page.done !== true; page = await pages.next()) {
    if (page.value.length === 0) continue;
    yield separator + page.value.map((item) => JSON.stringify(item)).join(",");
    separator = ",";
  }
  yield "]\n";
}

/**
 * Browsers use only HTTPS with the host for a year. Subdomains are left out, because they may be others' hosts. The
 * server serves nothing without TLS.
 */
const STRICT_TRANSPORT = "max-age=31536000";

export function send(reply: FastifyReply, { status, headers = {}, body }: Answer): FastifyReply {
  return reply
    .code(status)
    .headers({ ...headers, "x-content-type-options": "nosniff", "strict-transport-security": STRICT_TRANSPORT })
    .send(body);
}
