import { type SpawnOptions, spawn } from "node:child_process";
import { Worker } from "node:worker_threads";
import { Driver, nodeMethod, secret, z } from "../index.js";

const post = (description: string) => ({ httpMethods: ["POST"], async: false, description });

/**
 * Breaks each rule that the host enforces.
 * @public loaded by its path
 */
export default class MisbehavingDriver extends Driver<{ readonly name: string; readonly onLoad: string }> {
  static override readonly driverName: string = "misbehaving";
  static override readonly settings = z.strictObject({ onLoad: z.enum(["throw", "hang", "work"]).default("work") });

  late_throw = nodeMethod(post("throws in a later turn"), () => {
    setTimeout(() => {
      throw new Error("thrown late");
    });
    return new Promise(() => undefined);
  });
  exit = nodeMethod(post("exits"), () => process.exit(3));
  busy = nodeMethod(post("never returns"), () => {
    for (;;);
  });
  busy_later = nodeMethod(post("is busy once it has answered"), () => {
    setTimeout(() => {
      for (;;);
    }, 50);
    return "soon";
  });
  flood = nodeMethod(post("writes without end"), () => {
    const write = (): void => {
      while (process.stdout.write("x".repeat(4_096)));
      process.stdout.once("drain", write);
    };
    write();
    return new Promise(() => undefined);
  });
  flood_answers = nodeMethod(post("asks without end"), () => {
    for (;;) void this.environment.devices();
  });
  huge = nodeMethod(post("answers too much"), () => "x".repeat(3_000_000));
  memory = nodeMethod(post("takes memory"), () => {
    const held: Buffer[] = [];
    const take = (): void => {
      held.push(Buffer.alloc(8 * 1_048_576, 1));
      setImmediate(take);
    };
    take();
    return new Promise(() => undefined);
  });
  odd = nodeMethod({ ...post("answers what is no JSON"), args: z.strictObject({ what: z.string() }) }, ({ what }) => ({
    list: [ODD[what]],
  }));
  shared_name = nodeMethod(post("has the name of another driver's method"), () => "misbehaving");
  deaf = nodeMethod({ ...post("heeds nothing"), exclusiveLock: false }, () => new Promise(() => undefined));
  deaf_soon = nodeMethod({ ...post("heeds nothing, for 5 s"), timeoutMs: 5_000 }, () => new Promise(() => undefined));
  deaf_task = nodeMethod({ ...post("heeds nothing"), async: true }, () => new Promise(() => undefined));
  blab = nodeMethod(
    { ...post("prints its secret"), args: z.strictObject({ password: secret(z.string()), thrown: z.boolean() }) },
    ({ password, thrown }) => {
      console.log(`logging in with ${password}`);
      console.error(`${"x".repeat(990)} ${password}`);
      setTimeout(() => {
        console.log(`${JSON.stringify({ password })} was used`);
        if (thrown) throw new Error(`no login with ${password}`);
      }, 50);
      return "soon";
    },
  );
  /** Starts a child process in its own session that keeps the driver's pipes open. */
  leave_child = nodeMethod(
    {
      ...post("leaves a child behind, with its environment or without"),
      exclusiveLock: false,
      args: z.strictObject({ hidden: z.boolean(), exits: z.boolean() }),
    },
    ({ hidden, exits }) => {
      const child = started(["setInterval(() => undefined, 1000)"], hidden ? { env: {} } : {});
      if (exits) setTimeout(() => process.exit(3), 100);
      return { pid: child.pid };
    },
  );
  busy_thread = nodeMethod(post("has a thread that is busy"), () => {
    new Worker("for (;;);", { eval: true });
    return new Promise(() => undefined);
  });
  busy_child = nodeMethod(post("has a child that is busy"), () => {
    started(["for (;;);"]);
    return new Promise(() => undefined);
  });
  memory_child = nodeMethod(post("has a child that takes memory"), () => {
    started(["const held = []; setInterval(() => held.push(Buffer.alloc(64 * 1_048_576, 1)), 50)"]);
    return new Promise(() => undefined);
  });
  fine = nodeMethod(post("works"), () => "fine");

  override start(): void | Promise<void> {
    if (this.environment.settings.onLoad === "throw") throw new Error("no such hardware");
    if (this.environment.settings.onLoad === "hang") return new Promise(() => undefined);
  }
}

const ODD: Readonly<Record<string, unknown>> = {
  Map: new Map([[1, 2]]),
  Set: new Set([1]),
  generator: (function* () {
    yield 1;
  })(),
  bytes: Buffer.from("abc"),
  NaN: Number.NaN,
  infinity: Number.POSITIVE_INFINITY,
  integer: 2 ** 53,
  bigint: 1n,
  date: new Date(0),
};

function started(script: readonly string[], options: SpawnOptions = {}) {
  return spawn(process.execPath, ["-e", ...script], { detached: true, stdio: ["ignore", 1, 2, 3], ...options });
}
