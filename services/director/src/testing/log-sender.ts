import { createHash } from "node:crypto";
import { request } from "node:https";
import type { AgentMethod } from "@diskmesh/mbus";

/** The arguments of fetch_logs_with_signed_url. */
export interface AskedLogs {
  readonly signed_url: string;
  readonly log_type: string;
  readonly filters: readonly string[];
  readonly blobstore_headers: Readonly<Record<string, string>>;
}

/** Returns the agent method for log requests, which answers with the result of `answer`. */
export function sendsLogs(answer: (asked: AskedLogs) => unknown): Record<string, AgentMethod> {
  return {
    fetch_logs_with_signed_url: { mode: "async", minArguments: 1, run: async ([asked]) => answer(asked as AskedLogs) },
  };
}

export const digestsOf = (text: string): string => {
  const [sha1, sha512] = ["sha1", "sha512"].map((algorithm) => createHash(algorithm).update(text).digest("hex"));
  return `${sha1};sha512:${sha512}`;
};

/**
 * Uploads a text to the URL of a log request, as stock agents do, and returns the status. `sizeBytes` is the announced
 * size.
 */
export function put(
  { signed_url, blobstore_headers }: Pick<AskedLogs, "signed_url" | "blobstore_headers">,
  text: string,
  ca: Buffer,
  { sizeBytes = Buffer.byteLength(text) }: { readonly sizeBytes?: number } = {},
): Promise<number> {
  const headers = { ...blobstore_headers, "content-length": sizeBytes, expect: "100-continue", accept: "*/*" };
  return new Promise((resolve, reject) => {
    const sending = request(signed_url, { method: "PUT", headers, ca, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sending.once("error", reject);
    sending.once("continue", () => {
      if (Buffer.byteLength(text) === sizeBytes) sending.end(text);
      else sending.write(text);
    });
  });
}
