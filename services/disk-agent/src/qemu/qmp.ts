import { createConnection, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { messageOf, UnavailableError } from "@diskmesh/domain";
import * as z from "zod";
import { shortSocketPath } from "../nbd/socket-path.js";

const answerSchema = z.union([
  z.object({ id: z.number(), return: z.unknown() }),
  z.object({ id: z.number().optional(), error: z.object({ class: z.string(), desc: z.string() }) }),
]);

interface Pending {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** Maximum time in ms of one command. A daemon that does not answer for so long is not served from. */
const COMMAND_TIMEOUT_MS = 5_000;

/** Control connection to a qemu-storage-daemon (QMP). */
export class Qmp {
  readonly #socket: Socket;
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;
  /** Resolves when the connection has ended, as it does with the daemon. */
  readonly ended: Promise<void>;

  private constructor(socket: Socket) {
    this.#socket = socket;
    this.ended = new Promise((resolve) => {
      socket.once("close", () => {
        for (const { reject } of this.#pending.values()) reject(new UnavailableError("the storage daemon has ended"));
        this.#pending.clear();
        resolve();
      });
    });
    socket.on("error", () => socket.destroy());
    // The greeting and events have no id, and need no answer. The reader repeats the socket's errors, which are handled
    // above.
    const lines = createInterface({ input: socket });
    lines.on("line", (line) => this.#receive(line)).on("error", () => undefined);
  }

  /** Connects and negotiates. Throws UnavailableError when no daemon listens. */
  static async connect(path: string): Promise<Qmp> {
    await using short = await shortSocketPath(path);
    const socket = await new Promise<Socket>((resolve, reject) => {
      const connecting = createConnection(short.path, () => resolve(connecting.removeAllListeners("error")));
      connecting.once("error", (error) =>
        reject(new UnavailableError(`no storage daemon listens at ${path}: ${messageOf(error)}`, { cause: error })),
      );
    });
    const qmp = new Qmp(socket);
    try {
      await qmp.execute("qmp_capabilities");
      return qmp;
    } catch (error) {
      // A daemon has one control connection at a time.
      qmp.close();
      throw error;
    }
  }

  /** Executes a command. Throws UnavailableError when the daemon refuses it, has ended or does not answer. */
  async execute(command: string, parameters?: object): Promise<unknown> {
    this.#lastId += 1;
    const id = this.#lastId;
    const answer = new Promise<unknown>((resolve, reject) => this.#pending.set(id, { resolve, reject }));
    const timer = setTimeout(
      () => this.#pending.get(id)?.reject(new UnavailableError(`the storage daemon did not answer ${command}`)),
      COMMAND_TIMEOUT_MS,
    );
    this.#socket.write(`${JSON.stringify({ execute: command, arguments: parameters, id })}\n`);
    try {
      return await answer;
    } finally {
      clearTimeout(timer);
      this.#pending.delete(id);
    }
  }

  /** Does not keep the agent's process alive. */
  unref(): this {
    this.#socket.unref();
    return this;
  }

  close(): void {
    this.#socket.destroy();
  }

  #receive(line: string): void {
    const answer = answerSchema.safeParse(parsed(line));
    if (!answer.success || answer.data.id === undefined) return;
    const pending = this.#pending.get(answer.data.id);
    if ("error" in answer.data)
      pending?.reject(new UnavailableError(`the storage daemon refused: ${answer.data.error.desc}`));
    else pending?.resolve(answer.data.return);
  }
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
