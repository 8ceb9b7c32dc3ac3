import { Driver, nodeMethod, secret, z } from "../index.js";

const post = (description: string) => ({ httpMethods: ["POST"], async: false, description });

/**
 * Does everything that a driver should not.
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
  deaf = nodeMethod(post("heeds nothing"), () => new Promise(() => undefined));
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
  fine = nodeMethod(post("works"), () => "fine");

  override start(): void | Promise<void> {
    if (this.environment.settings.onLoad === "throw") throw new Error("no such hardware");
    if (this.environment.settings.onLoad === "hang") return new Promise(() => undefined);
  }
}
