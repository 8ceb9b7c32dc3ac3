import { ControllerDefinition, IdentityDefinition, NodeDefinition } from "@diskmesh/api/csi";
import { type Client, methodsOf, type ServiceDefinition } from "@diskmesh/rpc";
import { type ChannelCredentials, credentials, Metadata, makeGenericClientConstructor } from "@grpc/grpc-js";

export interface CsiClients {
  readonly identity: Client<typeof IdentityDefinition>;
  readonly controller: Client<typeof ControllerDefinition>;
  readonly node: Client<typeof NodeDefinition>;
  close(): void;
}

/** Returns clients of a driver's socket, as an orchestrator has them. Calls wait until the socket exists. */
export function csiClients(socketPath: string): CsiClients {
  const address = `unix://${socketPath}`;
  const all = {
    identity: clientOf(IdentityDefinition, address),
    controller: clientOf(ControllerDefinition, address),
    node: clientOf(NodeDefinition, address),
  };
  const close = (): void => {
    for (const client of Object.values(all)) client.close();
  };
  return { ...all, close };
}

const DEADLINE_MS = 120_000;

function clientOf<Definition extends ServiceDefinition>(definition: Definition, address: string): Client<Definition> {
  const methods = methodsOf(definition);
  const Constructor = makeGenericClientConstructor(Object.fromEntries(methods) as never, definition.fullName);
  const client = new Constructor(address, credentials.createInsecure() as ChannelCredentials);
  const call = client as unknown as Record<string, (...args: unknown[]) => void>;
  const calls = methods.map(([name]) => [
    name,
    (request: object, { deadlineMs = DEADLINE_MS } = {}) =>
      new Promise((resolve, reject) => {
        const waiting = new Metadata({ waitForReady: true });
        call[name]?.(request, waiting, { deadline: Date.now() + deadlineMs }, (error: Error | null, answer: unknown) =>
          error === null ? resolve(answer) : reject(error),
        );
      }),
  ]);
  return { ...Object.fromEntries(calls), close: () => client.close() } as Client<Definition>;
}
