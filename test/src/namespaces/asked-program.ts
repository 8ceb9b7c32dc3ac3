import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { messageOf } from "@diskmesh/domain";
import { isolatedCommand } from "./isolation.js";

interface Question {
  readonly number: number;
  readonly asked: string;
}

interface Answer {
  readonly number: number;
  /** Error of the request; absent for a success. */
  readonly error?: string;
}

/** A program of this repository in its own network and mount namespaces. It executes requests one after another. */
export class AskedProgram implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  #questions = 0;

  constructor(mainFile: string, temporaryFolder: string) {
    const { command, args } = isolatedCommand(mainFile);
    const stdio = ["ignore", "inherit", "inherit", "ipc"] as const;
    this.#child = spawn(command, args, { stdio: [...stdio], env: { ...process.env, TMPDIR: temporaryFolder } });
    this.#child.on("message", (answer: Answer) => this.#waiting.get(answer.number)?.(answer));
    this.#child.once("exit", (code, signal) => {
      for (const [number, tell] of this.#waiting) tell({ number, error: `the program ended with ${code ?? signal}` });
    });
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new Error("the program does not run");
    return this.#child.pid;
  }

  async ask(asked: string): Promise<void> {
    const question: Question = { number: ++this.#questions, asked };
    const { error } = await new Promise<Answer>((resolve) => {
      this.#waiting.set(question.number, resolve);
      this.#child.send(question, (failed) => {
        if (failed) resolve({ number: question.number, error: messageOf(failed) });
      });
    });
    this.#waiting.delete(question.number);
    if (error !== undefined) throw new Error(error);
  }

  /** Kills the program at once; everything that it started ends with it. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await ended;
  }
}

/** The program's side: calls `answer` for each request, and ends with its parent. */
export function answerQuestions(answer: (asked: string) => Promise<void>): void {
  process.once("disconnect", () => process.exit(1));
  let last: Promise<void> = Promise.resolve();
  process.on("message", ({ number, asked }: Question) => {
    last = last.then(async () => {
      const error = await answer(asked).then(
        () => undefined,
        (reason: unknown) => (reason instanceof Error ? (reason.stack ?? reason.message) : String(reason)),
      );
      process.send?.({ number, ...(error === undefined ? {} : { error }) } satisfies Answer);
    });
  });
}
