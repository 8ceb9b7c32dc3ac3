import type { Logger } from "@diskmesh/domain";

/** A resource that can be stopped, by the first of these methods that it has. */
export type Stoppable = (() => unknown) | AsyncDisposable | { close(): unknown } | { stop(): unknown };

/** Resources of a service, stopped in reverse order of their start. */
export class Lifecycle {
  readonly #resources: { readonly name: string; readonly resource: Stoppable }[] = [];
  readonly #stopping = new AbortController();
  #waitsFor: { readonly name: string; readonly resource: Stoppable } | undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(private readonly log: Logger) {}

  /** Aborts when the service begins to stop. */
  get stopping(): AbortSignal {
    return this.#stopping.signal;
  }

  /** Name of the resource that a stop waits for, and the reason that the resource itself gives. */
  get waitsFor(): string {
    if (this.#waitsFor === undefined) return "a resource that is starting";
    const { name, resource } = this.#waitsFor;
    const inner = "waitsFor" in resource ? resource.waitsFor : "";
    return inner ? `${name} (${inner})` : name;
  }

  /** Set once `fail` was called, with its argument. */
  get failure(): { readonly error: unknown } | undefined {
    return this.#failure;
  }

  /** Adds a resource that stops with the service, before everything added earlier. Returns it. */
  use<Resource extends Stoppable>(name: string, resource: Resource): Resource {
    this.#resources.push({ name, resource });
    return resource;
  }

  /** Stops the service with exit code 1, because it cannot continue: its tablet was fenced, or its storage is gone. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.beginStop();
  }

  beginStop(): void {
    this.#stopping.abort(new Error("the service is stopping"));
  }

  /** Stops everything in reverse order. A failed stop is logged and does not prevent the others. */
  async stopAll(): Promise<void> {
    for (let last = this.#resources.pop(); last; last = this.#resources.pop()) {
      this.#waitsFor = last;
      try {
        await stopOne(last.resource);
      } catch (error) {
        this.log.error({ error, resource: last.name }, "resource stop failed");
      }
      this.#waitsFor = undefined;
    }
  }
}

async function stopOne(resource: Stoppable): Promise<void> {
  if (typeof resource === "function") await resource();
  else if (Symbol.asyncDispose in resource) await resource[Symbol.asyncDispose]();
  else if ("close" in resource) await resource.close();
  else await resource.stop();
}
