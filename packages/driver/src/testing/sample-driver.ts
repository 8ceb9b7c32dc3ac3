import { createHash } from "node:crypto";
import { appendFile } from "node:fs/promises";
import { Driver, driverMethod, MethodError, nodeMethod, secret, z } from "../index.js";

const anything = z.looseObject({});
const VERBS = ["GET", "POST", "PUT", "PATCH", "DELETE"];
const at = z.strictObject({ at: z.int() });
const noted = z.strictObject({ file: z.string(), password: secret(z.string()) });
const size = z.strictObject({ size: z.int().default(256) });
const bar = z.strictObject({ bar: z.string() });

/** Declares one method of each kind for the conformance tests. */
class BaseDriver extends Driver {
  static override readonly driverName: string = "sample";
  static override readonly description = "for tests";

  overridden = nodeMethod(
    { httpMethods: ["GET"], async: false, description: "of the base", scope: "read" },
    () => "base",
  );
  inherited = nodeMethod({ httpMethods: ["GET"], async: false, description: "as it was", scope: "read" }, () => "base");
}

/** @public loaded by its path */
export default class SampleDriver extends BaseDriver {
  /** Calls of the method that run now, and calls so far. */
  #atOnce = 0;
  #turns = 0;

  override overridden = nodeMethod(
    { httpMethods: ["GET"], async: false, description: "of the sample", scope: "read" },
    () => "sample",
  );
  second_method = nodeMethod(
    { httpMethods: ["POST"], async: true, description: "takes a bar", args: bar, scope: "call" },
    () => "done",
  );
  third_method_sync = nodeMethod(
    { httpMethods: ["POST"], async: false, description: "whether it is a cat", args: bar, scope: "call" },
    ({ bar }) => bar === "meow",
  );
  fourth_shared = nodeMethod(
    { httpMethods: ["POST"], async: true, description: "beside others", args: bar, exclusiveLock: false },
    () => undefined,
  );
  echo = nodeMethod(
    { httpMethods: VERBS, async: false, description: "says what it heard", args: anything, exclusiveLock: false },
    (kw, { httpMethod }) => ({ http_method: httpMethod, kw }),
  );
  lower = nodeMethod({ httpMethods: ["get", "head"], async: false, description: "in small letters" }, () => "lower");
  shared_name = nodeMethod(
    { httpMethods: ["POST"], async: false, description: "has the name of another driver's method" },
    () => "sample",
  );
  none = nodeMethod({ httpMethods: ["POST"], async: false, description: "answers nothing" }, () => undefined);
  str = nodeMethod({ httpMethods: ["GET"], async: false, description: "a text", scope: "read" }, () => "hello");
  empty = nodeMethod({ httpMethods: ["GET"], async: false, description: "an empty text" }, () => "");
  no = nodeMethod({ httpMethods: ["GET"], async: false, description: "false", name: "false" }, () => false);
  list = nodeMethod({ httpMethods: ["GET"], async: false, description: "a list" }, () => [1, "a", null]);
  num = nodeMethod({ httpMethods: ["GET"], async: false, description: "a number" }, () => 5);
  bytes = nodeMethod({ httpMethods: ["POST"], async: false, description: "bytes", args: size }, ({ size }) =>
    Uint8Array.from({ length: size }, (_, at) => at),
  );
  report = nodeMethod(
    { httpMethods: ["GET"], async: false, description: "a text to save", attach: true, scope: "read" },
    () => "caf\u00e9\n",
  );
  script = nodeMethod(
    {
      httpMethods: ["GET"],
      async: false,
      description: "a text that clients show",
      contentType: "text/plain",
      args: z.strictObject({ name: z.string(), password: secret(z.string()).optional() }),
    },
    ({ name }) => `#!ipxe\necho ${name}\n`,
  );
  boom = nodeMethod({ httpMethods: ["POST"], async: false, description: "fails" }, () => {
    throw new MethodError("failed", "iron boom");
  });
  conflict = nodeMethod({ httpMethods: ["POST"], async: false, description: "conflicts" }, () => {
    throw new MethodError("conflict", "conf boom");
  });
  plain = nodeMethod({ httpMethods: ["POST"], async: false, description: "throws" }, () => {
    throw new Error("plain boom");
  });
  aboom = nodeMethod({ httpMethods: ["POST"], async: true, description: "fails later" }, () => {
    throw new Error("plain boom");
  });
  aconflict = nodeMethod({ httpMethods: ["POST"], async: true, description: "conflicts later" }, () => {
    throw new MethodError("conflict", "conf boom");
  });
  renamed = nodeMethod(
    { httpMethods: ["POST"], async: false, description: "renamed", name: "other-name" },
    () => "other",
  );
  login = nodeMethod(
    {
      httpMethods: ["POST"],
      async: false,
      description: "takes a secret",
      args: z.strictObject({ user: z.string(), password: secret(z.string()).optional() }),
    },
    ({ user, password }) => {
      if (user === "echo") throw new Error(`wrong password ${password}`);
      return user;
    },
  );
  login_async = nodeMethod(
    { httpMethods: ["POST"], async: true, description: "takes a secret, and notes it", args: noted },
    (args) => note(args),
  );
  sleep = nodeMethod(
    { httpMethods: ["POST"], async: false, description: "waits", args: z.strictObject({ ms: z.int() }) },
    ({ ms }, { signal }) => sleep(ms, signal),
  );
  turn = nodeMethod({ httpMethods: ["POST"], async: false, description: "takes its turn", args: at }, (args) =>
    this.#takeTurn(args),
  );
  turn_async = nodeMethod(
    { httpMethods: ["POST"], async: true, description: "takes its turn", args: at },
    async (args) => ({
      ...(await this.#takeTurn(args)),
      turn: ++this.#turns,
    }),
  );
  sleep_async = nodeMethod(
    { httpMethods: ["POST"], async: true, description: "waits", args: z.strictObject({ ms: z.int() }) },
    ({ ms }, { signal }) => sleep(ms, signal),
  );
  flash = nodeMethod(
    {
      httpMethods: ["POST"],
      async: true,
      description: "tells its progress, and what it left",
      args: z.strictObject({ password: secret(z.string()).default("") }),
      timeoutMs: 3_000_000,
    },
    async ({ password }, { signal, progress }) => {
      progress(41.9, `writes bank 2 with ${password}`);
      await new Promise<void>((resolve) => {
        if (signal.aborted) resolve();
        signal.addEventListener("abort", () => resolve());
      });
      throw new MethodError("cancelled", `stopped before anything was written with ${password}`);
    },
  );
  surroundings = nodeMethod({ httpMethods: ["GET"], async: false, description: "of its process" }, () => ({
    env: process.env,
    pid: process.pid,
    argv: process.argv.slice(2),
    cwd: process.cwd(),
  }));
  devices = nodeMethod({ httpMethods: ["GET"], async: false, description: "of the node" }, () =>
    this.environment.devices(),
  );
  d_echo = driverMethod(
    { httpMethods: VERBS, async: false, description: "says what it heard", args: anything },
    (kw, { httpMethod }) => ({ http_method: httpMethod, kw }),
  );
  d_async = driverMethod({ httpMethods: ["POST"], async: true, description: "a task" }, () => "told");
  d_boom = driverMethod({ httpMethods: ["POST"], async: false, description: "fails" }, () => {
    throw new Error("driver boom");
  });
  d_aboom = driverMethod({ httpMethods: ["POST"], async: true, description: "fails later" }, () => {
    throw new Error("driver boom");
  });
  d_bytes = driverMethod({ httpMethods: ["POST"], async: false, description: "bytes", args: size }, ({ size }) =>
    Buffer.alloc(size, 0xff),
  );
  d_none = driverMethod({ httpMethods: ["POST"], async: false, description: "answers nothing" }, () => undefined);
  d_login_async = driverMethod(
    { httpMethods: ["POST"], async: true, description: "takes a secret, and notes it", args: noted },
    (args) => note(args),
  );
  d_note = driverMethod(
    {
      httpMethods: ["POST"],
      async: true,
      description: "writes a line",
      args: z.strictObject({ file: z.string(), line: z.string() }),
    },
    ({ file, line }) => appendFile(file, `${line}\n`),
  );
  d_sleep = driverMethod(
    { httpMethods: ["POST"], async: true, description: "waits", args: z.strictObject({ ms: z.int() }) },
    ({ ms }, { signal }) => sleep(ms, signal),
  );

  async #takeTurn<Args>(args: Args): Promise<Args & { readonly atOnce: number }> {
    this.#atOnce += 1;
    let atOnce = this.#atOnce;
    await new Promise((resolve) => setImmediate(resolve));
    atOnce = Math.max(atOnce, this.#atOnce);
    this.#atOnce -= 1;
    return { ...args, atOnce };
  }
}

/** Appends a line for each call, and returns a text with a secret. */
async function note({ file, password }: z.output<typeof noted>): Promise<string> {
  await appendFile(file, `${createHash("sha256").update(password).digest("hex")}\n`);
  return `logged in with ${password}`;
}

function sleep(ms: number, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve("slept"), ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new Error("woken"));
    });
  });
}
