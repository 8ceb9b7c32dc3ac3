import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { InvalidArgumentError, UnavailableError } from "@diskmesh/domain";
import type { Server, UntypedServiceImplementation } from "@grpc/grpc-js";
import { HealthImplementation } from "grpc-health-check";
import { Reflection } from "./reflection.js";
import { statusOfError } from "./status-of-error.js";

const HEALTH_SERVICE = "grpc.health.v1.Health";

/** Health and reflection: open to every caller with an identity of ours, and exempt from the limit on calls at once. */
export class Infrastructure {
  readonly #health = new HealthImplementation();
  readonly #services = new Set<string>([""]);
  readonly #openStreams = new Set<OpenStream>();

  addHealth(server: Server): void {
    this.#health.addToServer(this.#tracked(server));
    this.setServing(false);
  }

  addService(name: string): void {
    this.#services.add(name);
    this.#health.setStatus(name, "NOT_SERVING");
  }

  /** Sets the health of the server as a whole (the empty name) and of every service. */
  setServing(serving: boolean): void {
    for (const name of this.#services) this.#health.setStatus(name, serving ? "SERVING" : "NOT_SERVING");
  }

  /** Describes the services that were added, from the .proto files of a folder. */
  async addReflection(server: Server, protoFolder: string): Promise<void> {
    const services = [HEALTH_SERVICE, ...this.#services].filter((name) => name !== "");
    (await Reflection.of(protoFolder, services)).addToServer(this.#tracked(server));
  }

  /** Ends health watches and reflection streams, which otherwise hold their connections open during a stop. */
  endStreams(): void {
    const stopping = statusOfError(new UnavailableError("the server is stopping"), "none");
    for (const stream of this.#openStreams) stream.emit("error", stopping);
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
      if (streams) {
        this.#openStreams.add(call);
        call.once("cancelled", () => this.#openStreams.delete(call));
      }
      handler(call, callback);
    };
  }
}

interface OpenStream {
  emit(event: "error", error: unknown): unknown;
}

type LooseHandler = (
  call: OpenStream & { once(event: "cancelled", listener: () => void): unknown },
  callback?: (error: unknown) => void,
) => void;

/** The repository's `proto` folder, searched upwards from this package: it is beside `packages` and `node_modules`. */
export function findProtoFolder(): string {
  const start = dirname(fileURLToPath(import.meta.url));
  for (let folder = start; folder !== dirname(folder); folder = dirname(folder))
    if (existsSync(join(folder, "proto", "diskmesh"))) return join(folder, "proto");
  throw new InvalidArgumentError(`no proto/diskmesh folder above ${start}: give protoFolder`);
}
