import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { answerTo, CpiError, methods, type Request } from "@diskmesh/process-cpi";
import { told } from "../secrets/canaries.js";
import type { Misbehaviour, TestContext } from "./misbehaviour.js";

type TestRequest = Request & { readonly context: TestContext };

/** Process CPI with faults that tests can switch on. */
async function main(): Promise<void> {
  const request = JSON.parse(readFileSync(0, "utf8")) as TestRequest;
  process.env.PROCESS_CPI_AGENT = fileURLToPath(new URL("./agent.js", import.meta.url));
  let hasSaidAll = false;
  const answer = await answerTo(async () => {
    hasSaidAll = await misbehaves(request);
    if (hasSaidAll) return null;
    const method = methods[request.method];
    if (method === undefined) throw new CpiError("InvalidCall", `Method is not known, got '${request.method}'`);
    return asHint(request, await method(request));
  });
  if (!hasSaidAll) process.stdout.write(JSON.stringify(answer));
}

function asHint({ method, context }: TestRequest, result: unknown): unknown {
  const isObject = method === "attach_disk" && context.hint === "object" && result !== null;
  return isObject ? { path: result, lun: 3, ...context.hint_secrets } : result;
}

function say(result: object): void {
  process.stdout.write(JSON.stringify({ result, error: null, log: "" }));
}

/** Returns true when the fault has replaced the answer. */
async function misbehaves(request: TestRequest): Promise<boolean> {
  const wrongs = misbehaviour(request);
  const [what = "", detail = ""] = (wrongs[request.method] ?? wrongs["*"] ?? "").split("=");
  switch (what) {
    case "hangs":
      while (misbehaviour(request)[request.method] === wrongs[request.method]) await sleep(50);
      return false;
    case "tells":
      process.stderr.write(`${JSON.stringify(request)}\n${told([request.context, request.arguments])}\n`);
      process.stdout.write(
        JSON.stringify({
          result: null,
          error: { type: "Bosh::Clouds::CloudError", message: told(request.context), ok_to_retry: false },
          log: told(request.context),
        }),
      );
      return true;
    case "hides":
      say({ path: "/nowhere", ...request.context.hint_secrets });
      return true;
    case "garbage":
      process.stdout.write("this is no JSON");
      return true;
    case "crash":
      process.kill(process.pid, "SIGKILL");
      return true;
    case "error":
      throw new CpiError(detail, `told to fail with ${detail}`, true);
    default:
      return false;
  }
}

function misbehaviour({ context }: TestRequest): Misbehaviour {
  const file = join(context.state_folder, "misbehave.json");
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
}

await main();
