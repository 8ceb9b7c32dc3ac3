import {
  AbortedError,
  CancelledError,
  DiskFullError,
  FencedError,
  ResourceExhaustedError,
  servedElsewhere,
  TimeoutError,
  UnavailableError,
} from "@diskmesh/domain";
import {
  type Client,
  createClient,
  DEFAULT_RPC_SERVER_LIMITS,
  RpcServer,
  type ServiceDefinition,
  type TlsFiles,
} from "@diskmesh/rpc";
import { testCertificates } from "./certificates.js";

/** Makes an error as Node and drivers throw them: recognizable only by its name or code. */
function plainError(name: string, code = ""): Error {
  return Object.assign(new Error("password=x"), { name }, code === "" ? {} : { code });
}

interface Cause {
  readonly what: string;
  readonly thrown: () => unknown;
  /** Name of the gRPC status that the caller must get. */
  readonly status: string;
}

/**
 * Faults that pass without a change of the request: the error thrown in a handler, and the status that the caller must
 * get.
 */
const RETRIABLE_CAUSES: readonly Cause[] = [
  { what: "another process leads", thrown: () => servedElsewhere("it leads"), status: "UNAVAILABLE" },
  { what: "the lease is lost", thrown: () => new UnavailableError("lease"), status: "UNAVAILABLE" },
  { what: "fenced by a newer leader", thrown: () => new FencedError("fenced"), status: "UNAVAILABLE" },
  {
    what: "the database went away during a commit",
    thrown: () => new UnavailableError("commit", { outcome: "unknown" }),
    status: "UNAVAILABLE",
  },
  { what: "the database cannot be reached", thrown: () => plainError("MongoNetworkError"), status: "UNAVAILABLE" },
  { what: "the database has no primary", thrown: () => plainError("MongoServerSelectionError"), status: "UNAVAILABLE" },
  { what: "the database throttles", thrown: () => plainError("MongoServerError"), status: "UNAVAILABLE" },
  {
    what: "too much waits for the database",
    thrown: () => new ResourceExhaustedError("full"),
    status: "RESOURCE_EXHAUSTED",
  },
  { what: "the disk of the tablet is full", thrown: () => new DiskFullError("full"), status: "UNAVAILABLE" },
  { what: "another disk is full", thrown: () => plainError("Error", "ENOSPC"), status: "UNAVAILABLE" },
  { what: "descriptors run out", thrown: () => plainError("Error", "EMFILE"), status: "UNAVAILABLE" },
  { what: "no process can be started", thrown: () => plainError("Error", "EAGAIN"), status: "UNAVAILABLE" },
  { what: "NATS has nobody who answers", thrown: () => plainError("NoRespondersError"), status: "UNAVAILABLE" },
  { what: "NATS is away", thrown: () => plainError("ClosedConnectionError"), status: "UNAVAILABLE" },
  { what: "a service or agent is away", thrown: () => plainError("Error", "ECONNREFUSED"), status: "UNAVAILABLE" },
  { what: "a connection was lost", thrown: () => plainError("Error", "ECONNRESET"), status: "UNAVAILABLE" },
  { what: "the caller went away", thrown: () => new CancelledError("gone"), status: "CANCELLED" },
  { what: "the work was cut off", thrown: () => plainError("AbortError", "ABORT_ERR"), status: "CANCELLED" },
  { what: "time ran out", thrown: () => new TimeoutError("late"), status: "DEADLINE_EXCEEDED" },
  { what: "somebody else was first", thrown: () => new AbortedError("first"), status: "ABORTED" },
];

type Requests = Readonly<Record<string, object>>;
type Offer = (server: Pick<RpcServer, "addService">, current: () => never) => void;

export interface Offered {
  readonly role: "director" | "cpi-dispatcher" | "disk-registry" | "disk-agent";
  /** Adds the services. Each method must begin with a call of `current`, which throws. */
  readonly offer: Offer;
  /** Names of certificates; each method must accept at least one of them. */
  readonly callers: readonly string[];
  /** Requests of methods that would refuse an empty one before calling `current`. */
  readonly requests?: Requests;
}

/** Calls every method under every cause. Returns descriptions of wrong statuses; empty when all are right. */
export async function wrongAnswers(offered: Offered): Promise<string[]> {
  await using all = await AllMethods.serve(offered);
  const wrong: string[] = [];
  const causes = [...RETRIABLE_CAUSES, { what: "a bug", thrown: () => new TypeError("x"), status: "INTERNAL" }];
  for (const { what, thrown, status } of causes) {
    const statuses = await all.statusesWhen(thrown());
    if (statuses.size === 0) wrong.push("nothing is offered");
    for (const [method, actual] of statuses)
      if (actual !== status) wrong.push(`${method}, ${what}: ${actual} instead of ${status}`);
  }
  return wrong;
}

class AllMethods implements AsyncDisposable {
  #thrown: unknown;
  #statusOfLast = "";
  readonly #definitions: ServiceDefinition[] = [];
  readonly #clients = new Map<string, Client<ServiceDefinition>>();
  #address = "";

  private constructor(
    private readonly server: RpcServer,
    private readonly files: (name: string) => TlsFiles,
    private readonly offered: Offered,
  ) {}

  static async serve(offered: Offered): Promise<AllMethods> {
    const { role, offer } = offered;
    const { files } = await testCertificates({ hostIds: ["h1"] });
    const tls = files(role === "disk-agent" ? "disk-agent-h1" : role);
    const server = new RpcServer({
      tls,
      limits: DEFAULT_RPC_SERVER_LIMITS,
      onError: ({ status }) => {
        all.#statusOfLast = status;
      },
    });
    const all: AllMethods = new AllMethods(server, files, offered);
    offer(
      {
        addService: (definition, options) => {
          all.#definitions.push(definition);
          server.addService(definition, options);
        },
      },
      () => {
        throw all.#thrown;
      },
    );
    all.#address = `127.0.0.1:${await server.listen({ host: "127.0.0.1", port: 0 })}`;
    return all;
  }

  /** Returns each method's status when `current` throws `thrown`. */
  async statusesWhen(thrown: unknown): Promise<ReadonlyMap<string, string>> {
    this.#thrown = thrown;
    const statuses = new Map<string, string>();
    for (const definition of this.#definitions)
      for (const method of Object.keys(definition.methods))
        statuses.set(`${definition.fullName}/${method}`, await this.#statusOf(definition, method));
    return statuses;
  }

  async #statusOf(definition: ServiceDefinition, method: string): Promise<string> {
    for (const caller of this.offered.callers) {
      this.#statusOfLast = "OK";
      try {
        await ended(definition, this.#client(definition, caller), method, this.offered.requests?.[method] ?? {});
      } catch {
        // Ignored: the client reports INTERNAL as a retriable UnavailableError, which would hide a bug. The server's
        // onError has stored the status that it sent in #statusOfLast.
      }
      if (this.#statusOfLast !== "PERMISSION_DENIED") return this.#statusOfLast;
    }
    return "PERMISSION_DENIED";
  }

  #client(definition: ServiceDefinition, caller: string): Client<ServiceDefinition> {
    const key = `${definition.fullName} ${caller}`;
    let client = this.#clients.get(key);
    if (client === undefined) {
      const options = { address: this.#address, serverRole: this.offered.role, defaultDeadlineMs: 20_000 };
      client = createClient(definition, { ...options, tls: this.files(caller) });
      this.#clients.set(key, client);
    }
    return client;
  }

  [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients.values()) client.close();
    return this.server.drain();
  }
}

async function ended(
  { methods }: ServiceDefinition,
  client: Readonly<Record<string, unknown>>,
  method: string,
  request: object,
): Promise<void> {
  const { requestStream, responseStream } = methods[method] ?? {};
  const call = client[method] as (request: unknown) => unknown;
  const answer = call(requestStream ? one(request) : request);
  if (!responseStream) await answer;
  else for await (const _ of answer as AsyncIterable<unknown>);
}

async function* one(request: object): AsyncGenerator<object> {
  yield request;
}
