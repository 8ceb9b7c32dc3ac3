import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { told } from "../secrets/canaries.js";
import { methods } from "./methods.js";
import { CpiError, type Misbehaviour, type Request } from "./protocol.js";

/**
 * A CPI as a program of its own: one request on standard input, one answer on standard output. VMs are processes, disks
 * are sparse files. It can be told to do wrong whatever a CPI can do wrong.
 */
async function main(): Promise<void> {
  const request = JSON.parse(readFileSync(0, "utf8")) as Request;
  try {
    if (await misbehaves(request)) return;
    const method = methods[request.method];
    if (method === undefined) throw new CpiError("InvalidCall", `Method is not known, got '${request.method}'`);
    answer(await method(request), null);
  } catch (error) {
    const known = error instanceof CpiError;
    const type = known ? error.type : "Unknown";
    answer(null, { type, message: String((error as Error).message), ok_to_retry: known && error.okToRetry });
  }
}

function answer(result: unknown, error: object | null): void {
  process.stdout.write(JSON.stringify({ result: result ?? null, error, log: "" }));
}

/** True when it has said all that it will. */
async function misbehaves(request: Request): Promise<boolean> {
  const wrongs = misbehaviour(request);
  const [what = "", detail = ""] = (wrongs[request.method] ?? wrongs["*"] ?? "").split("=");
  switch (what) {
    case "slow":
      await new Promise((resolve) => setTimeout(resolve, Number(detail)));
      return false;
    case "hangs":
      while (misbehaviour(request)[request.method] === wrongs[request.method])
        await new Promise((resolve) => setTimeout(resolve, 50));
      return false;
    case "noisy":
      for (let line = 0; line < Number(detail); line++) process.stderr.write(`noise ${line}\n`);
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
      answer({ path: "/nowhere", ...request.context.hint_secrets }, null);
      return true;
    case "garbage":
      process.stdout.write("this is no JSON");
      return true;
    case "shapeless":
      process.stdout.write('{"result":{"no":"result"},"error":null,"log":""}');
      return true;
    case "huge":
      process.stdout.write(`{"result":"${"x".repeat(Number(detail))}","error":null,"log":""}`);
      return true;
    case "crash":
      process.kill(process.pid, "SIGKILL");
      return true;
    case "orphans":
      for (let child = 0; child < 2; child++) spawn("/bin/sleep", ["300"], { stdio: "inherit" }).unref();
      return false;
    case "error":
      throw new CpiError(detail, `told to fail with ${detail}`, true);
    default:
      return false;
  }
}

function misbehaviour({ context }: Request): Misbehaviour {
  const file = join(context.state_folder, "misbehave.json");
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : (context.misbehave ?? {});
}

await main();
