import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:https";
import { join } from "node:path";
import { promisify } from "node:util";

/** Arguments of fetch_logs_with_signed_url. */
export interface WantedLogs {
  readonly signed_url: string;
  readonly log_type: string;
  readonly filters: readonly string[] | null;
  readonly blobstore_headers?: Readonly<Record<string, string>>;
}

const run = promisify(execFile);
const TIMEOUT_MS = 60_000;
/** Log files by type. The agent runs no jobs and has no operating system of its own, so it has only agent logs. */
const FILES: Readonly<Record<string, readonly string[]>> = { job: [], agent: ["agent.log", "asked.jsonl"], system: [] };

/** Packs the logs of an agent and uploads them to the URL of `wanted`. */
export async function sendLogs(folder: string, wanted: WantedLogs, ca: string | undefined): Promise<{ sha1: string }> {
  const filters = (wanted.filters ?? []).map(patternOf);
  const isMeant = (name: string) => filters.length === 0 || filters.some((filter) => filter.test(name));
  const names = wanted.log_type.split(",").flatMap((type) => {
    const files = Object.hasOwn(FILES, type) ? FILES[type] : undefined;
    if (files === undefined) throw new Error("Invalid log type");
    return files.filter((name) => isMeant(name) && existsSync(join(folder, name)));
  });
  const scratch = mkdtempSync(join(folder, "logs-"));
  try {
    const [files, file] = [join(scratch, "files"), join(scratch, "logs.tgz")];
    mkdirSync(files);
    // Copies the files first, because tar fails on a file that grows while it is read.
    for (const name of names) copyFileSync(join(folder, name), join(files, name));
    await run("tar", ["-czf", file, "-C", files, "."]);
    const bytes = readFileSync(file);
    await put(bytes, wanted, ca);
    const [sha1, sha512] = ["sha1", "sha512"].map((algorithm) => createHash(algorithm).update(bytes).digest("hex"));
    return { sha1: `${sha1};sha512:${sha512}` };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function put(bytes: Buffer, { signed_url: url, blobstore_headers: headers }: WantedLogs, ca?: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const options = { method: "PUT", headers: { ...headers, "content-length": bytes.length }, timeout: TIMEOUT_MS };
    const sending = request(url, { ...options, ...(ca !== undefined && { ca }) }, (response) => {
      response.resume();
      const { statusCode = 0 } = response;
      if (statusCode >= 200 && statusCode < 300) resolve();
      else reject(new Error(`Error executing PUT, response was ${statusCode}`));
    });
    sending.once("timeout", () => sending.destroy(new Error("nobody took the logs in time")));
    sending.once("error", reject);
    sending.end(bytes);
  });
}

/** Converts a glob to a regular expression: `**` matches any folders, `*` any characters of a name. */
function patternOf(glob: string): RegExp {
  const parts = glob.split(/(\*\*\/|\*\*|\*)/).map((part) => {
    if (part === "**/") return "(?:.*/)?";
    if (part === "**") return ".*";
    return part === "*" ? "[^/]*" : part.replaceAll(/[\\^$.|?+()[\]{}]/g, "\\$&");
  });
  return new RegExp(`^${parts.join("")}$`);
}
