import { EventEmitter, once } from "node:events";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { InvalidArgumentError, messageOf } from "@diskmesh/domain";
import type {
  MethodDefinition,
  Server,
  ServerDuplexStream,
  ServiceDefinition,
  UntypedServiceImplementation,
} from "@grpc/grpc-js";
import type { PackageDefinition } from "@grpc/proto-loader";
import { statusOfError } from "../errors/status-of-error.js";
import type { DescriptorsWork } from "./descriptors-thread.js";

const PATHS = [
  "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
  "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/**
 * Folder of CSI's file, which no server with reflection serves. It extends the options of descriptors, and grpcurl
 * refuses such extensions as proto-loader describes them.
 */
const NOT_REFLECTED = join("vendor", "csi");

type RawCall = ServerDuplexStream<Buffer, Buffer>;
/** Handlers of the reflection library by path. They take decoded messages. */
type Methods = ReadonlyMap<string, MethodDefinition<unknown, unknown> & { handle(call: EventEmitter): void }>;

/**
 * Server reflection from the .proto files of a folder. The files are read at the first call: parsing takes as long as
 * the rest of a service's start, and most processes never get such a call.
 */
export class Reflection {
  #methods: Promise<Methods> | undefined;

  private constructor(
    private readonly protoFolder: string,
    private readonly files: readonly string[],
    private readonly services: readonly string[],
  ) {}

  /** Throws InvalidArgumentError when the folder contains no .proto files. */
  static async of(protoFolder: string, services: readonly string[]): Promise<Reflection> {
    const found = await readdir(protoFolder, { recursive: true });
    const files = found.filter((file) => file.endsWith(".proto") && !file.startsWith(NOT_REFLECTED)).sort();
    if (files.length === 0) throw new InvalidArgumentError(`the proto folder ${protoFolder} has no .proto files`);
    return new Reflection(
      protoFolder,
      files.map((file) => join(protoFolder, file)),
      services,
    );
  }

  addToServer(server: Pick<Server, "addService">): void {
    for (const path of PATHS) {
      const definition = { ServerReflectionInfo: bytesMethod(path) } as unknown as ServiceDefinition;
      server.addService(definition, { ServerReflectionInfo: (call: RawCall) => void this.#answer(path, call) });
    }
  }

  async #answer(path: string, call: RawCall): Promise<void> {
    try {
      this.#methods ??= this.#load();
      const method = (await this.#methods).get(path);
      if (!method) throw new Error(`the reflection library does not know ${path}`);
      const messages = Object.assign(new EventEmitter(), {
        write: (message: unknown) => call.write(method.responseSerialize(message)),
        end: () => call.end(),
      });
      method.handle(messages);
      call.on("end", () => messages.emit("end"));
      call.on("data", (bytes: Buffer) => {
        try {
          messages.emit("data", method.requestDeserialize(bytes));
        } catch (error) {
          // The library does not throw even for unknown names, so a throw is a decoding error.
          const text = `the request of ${path} cannot be decoded: ${messageOf(error)}`;
          call.emit("error", statusOfError(new InvalidArgumentError(text, { about: { method: path } }), "none"));
        }
      });
    } catch (error) {
      call.emit("error", statusOfError(error, "none"));
    }
  }

  async #load(): Promise<Methods> {
    const [fileDescriptorProtos, { ReflectionService }] = await Promise.all([
      loadDescriptors({ files: this.files, includeDirs: [this.protoFolder, join(this.protoFolder, "vendor")] }),
      import("@grpc/reflection"),
    ]);
    const described = { files: { fileDescriptorProtos } } as unknown as PackageDefinition;
    const methods = new Map<string, MethodDefinition<unknown, unknown> & { handle(call: EventEmitter): void }>();
    // The library can only add itself to a server, so this stand-in for a server records its handlers.
    const addService: Server["addService"] = (definition, implementation: UntypedServiceImplementation) => {
      for (const [name, method] of Object.entries(definition))
        methods.set(method.path, {
          ...method,
          handle: implementation[name] as unknown as (call: EventEmitter) => void,
        });
    };
    new ReflectionService(described, { services: [...this.services] }).addToServer({ addService } as Server);
    return methods;
  }
}

/** Runs in a worker thread, because it takes half a second of processor time, which would block all calls. */
async function loadDescriptors(work: DescriptorsWork): Promise<Buffer[]> {
  const thread = new Worker(new URL("./descriptors-thread.js", import.meta.url), { workerData: work });
  const [descriptors] = (await once(thread, "message")) as [Uint8Array[]];
  return descriptors.map((bytes) => Buffer.from(bytes));
}

function bytesMethod(path: string): MethodDefinition<Buffer, Buffer> {
  const same = (bytes: Buffer): Buffer => bytes;
  return {
    path,
    requestStream: true,
    responseStream: true,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  };
}
