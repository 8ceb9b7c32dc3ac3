import type { StemcellHeader, UploadStemcellRequest, UploadStemcellResponse } from "@diskmesh/api/director";
import { InvalidArgumentError, quoted, TimeoutError } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import { formatStemcell } from "../store/stemcell.js";
import { type TaskMethod, taskMethod } from "../tasks/task-method.js";
import { encodeTask } from "../tasks/wire.js";
import { DIGEST_PATTERN } from "../yaml/stemcell-manifest.js";
import type { StemcellContext } from "./context.js";
import { parseLocation } from "./download.js";

export async function uploadStemcell(
  context: StemcellContext,
  requests: AsyncIterable<UploadStemcellRequest>,
  call: CallContext,
): Promise<UploadStemcellResponse> {
  const parts = requests[Symbol.asyncIterator]();
  const next = (): Promise<UploadStemcellRequest | undefined> =>
    nextPart(parts, call, context.limits.stemcells.idleTimeoutMs);
  const { digest, fix, wait, location } = parseHeader(await next());
  if (location !== "") return fetchStemcell(context, { digest, fix, wait, location }, call);
  const task = await context.stemcellFiles.receive(chunks(next), digest, ({ uploadId, manifest }) => {
    const { name, version, operatingSystem, apiVersion, formats, cloudProperties } = manifest;
    const facts = { name, version, operatingSystem, apiVersion, formats, cloudProperties };
    return context.tasks.start(call, {
      job: { type: "update_stemcell", ...facts, uploadId, fix },
      queue: "normal",
      description: `create stemcell \`${formatStemcell(manifest)}\``,
      deployment: () => "",
    });
  });
  return { task: encodeTask(wait ? await context.tasks.whenEnded(task.taskId, call) : task) };
}

/** The description shows only the URL's host, because the rest may contain a signature. */
const fetchStemcell: TaskMethod<StemcellHeader> = taskMethod("normal", ({ digest, fix, location }) => {
  const { host, href } = parseLocation(location);
  return {
    job: { type: "fetch_stemcell", location: href, digest, fix },
    description: `create stemcell from ${host}`,
    deployment: "",
  };
});

function parseHeader(request: UploadStemcellRequest | undefined): StemcellHeader {
  if (request?.part?.$case !== "header")
    throw new InvalidArgumentError("the first message must be the header", { about: { field: "header" } });
  const { digest } = request.part.value;
  if (digest !== "" && !DIGEST_PATTERN.test(digest)) {
    throw new InvalidArgumentError(
      `digest ${quoted(digest)} is malformed: give a SHA-1 in hex, or sha256: and a SHA-256 in hex`,
      { about: { field: "digest" } },
    );
  }
  return request.part.value;
}

async function* chunks(next: () => Promise<UploadStemcellRequest | undefined>): AsyncGenerator<Buffer> {
  for (let request = await next(); request !== undefined; request = await next()) {
    if (request.part?.$case !== "chunk")
      throw new InvalidArgumentError("after the header, every message must be a chunk", { about: { field: "chunk" } });
    yield Buffer.from(request.part.value);
  }
}

/**
 * Returns the next message; undefined at the end. The idle timeout keeps a silent client from blocking an upload
 * forever.
 */
async function nextPart(
  parts: AsyncIterator<UploadStemcellRequest>,
  call: CallContext,
  idleTimeoutMs: number,
): Promise<UploadStemcellRequest | undefined> {
  let timer: NodeJS.Timeout | undefined;
  let unlisten = (): void => {};
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TimeoutError(`no data arrived for ${idleTimeoutMs} ms`)), idleTimeoutMs);
    call.signal.addEventListener("abort", abort, { once: true });
    function abort(): void {
      reject(call.signal.reason);
    }
    unlisten = () => call.signal.removeEventListener("abort", abort);
  });
  try {
    const result = await Promise.race([parts.next(), silence]);
    return result.done === true ? undefined : result.value;
  } finally {
    clearTimeout(timer);
    unlisten();
  }
}
