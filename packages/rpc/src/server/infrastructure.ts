import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { InvalidArgumentError, UnavailableError } from "@diskmesh/domain";
import type { Server, UntypedServiceImplementation } from "@grpc/grpc-js";
import { streamOfCall } from "../call/grpc-js-internals.js";
import type { RpcServerLimits } from "../call/limits.js";
import { callerOfStream } from "../call/peer-identity.js";
import { statusOfError } from "../errors/status-of-error.js";
import { Reflection } from "../reflection/reflection.js";
import { HEALTH_SERVICE, Health, type Healthy } from "./health.js";
import type { OnHeard } from "./serve.js";

/**
 * Health and reflection services. Open to every caller and exempt from the limit of concurrent calls, so that a full
 * server can report its state. A caller that opens a stream beyond its limit loses its oldest stream.
 */
export class Infrastructure {
  readonly #health = new Health();
  readonly #services = new Set<string>();
  /** Open streams with their callers' names, oldest first. */
  readonly #openStreams = new Map<OpenStream, string>();

  constructor(
    private readonly limits: Pick<RpcServerLimits, "maxStreamsPerPeer">,
    private readonly onHeard: OnHeard,
  ) {}

  addHealth(server: Server): void {
    this.#health.addToServer(this.#tracked(server));
    this.setServing(false);
  }

  addService(name: string): void {
    this.#services.add(name);
    this.#health.set(name, false);
  }

  /** Sets the health of every service, and of the whole server, which has the empty name. */
  setServing(serving: boolean, ready = serving, why = ""): void {
    for (const name of this.#services) this.#health.set(name, serving, why);
    this.#health.set("", ready, why);
  }

  /** Sets the health of a named part of the process. Health checks request it by that name. */
  setHealth(part: string, healthy: Healthy, why?: string): void {
    this.#health.set(part, healthy, why);
  }

  async addReflection(server: Server, protoFolder: string): Promise<void> {
    const services = [HEALTH_SERVICE, ...this.#services];
    (await Reflection.of(protoFolder, services)).addToServer(this.#tracked(server));
  }

  /** Ends health watches and reflection streams, which would keep their connections open during a stop. */
  endStreams(): void {
    const stopping = statusOfError(new UnavailableError("the server is stopping"), "none");
    for (const stream of this.#openStreams.keys()) stream.emit("error", stopping);
  }

  #tracked(server: Server): Server {
    const addService: Server["addService"] = (definition, implementation) => {
      const tracked: UntypedServiceImplementation = {};
      for (const [name, method] of Object.entries(definition)) {
        const original = implementation[name] ?? implementation[method.originalName ?? name];
        if (original) tracked[name] = this.#track(original as LooseHandler, method.responseStream) as never;
      }
      server.addService(definition, tracked);
    };
    return { addService } as Server;
  }

  #track(handler: LooseHandler, streams: boolean): LooseHandler {
    return (call, callback) => {
      this.onHeard(call);
      if (streams) this.#opened(call);
      handler(call, callback);
    };
  }

  #opened(stream: OpenStream): void {
    const { name } = callerOfStream(streamOfCall(stream));
    const ofCaller = [...this.#openStreams].filter(([, caller]) => caller === name).map(([open]) => open);
    const [oldest] = ofCaller;
    if (oldest && ofCaller.length >= this.limits.maxStreamsPerPeer) {
      const why = "the server closed this stream to admit a newer stream of the same caller (maxStreamsPerPeer)";
      oldest.emit("error", statusOfError(new UnavailableError(why), "none"));
      this.#openStreams.delete(oldest);
    }
    this.#openStreams.set(stream, name);
    stream.once("cancelled", () => this.#openStreams.delete(stream));
  }
}

interface OpenStream {
  emit(event: "error", error: unknown): unknown;
  once(event: "cancelled", listener: () => void): unknown;
}

type LooseHandler = (call: OpenStream, callback?: (error: unknown) => void) => void;

/**
 * Returns the repository's `proto` folder, searched upwards from this package; it is beside `packages` and
 * `node_modules`.
 */
export function findProtoFolder(): string {
  const start = dirname(fileURLToPath(import.meta.url));
  for (let folder = start; folder !== dirname(folder); folder = dirname(folder))
    if (existsSync(join(folder, "proto", "diskmesh"))) return join(folder, "proto");
  throw new InvalidArgumentError(`there is no proto/diskmesh folder above ${start}: set protoFolder`);
}
