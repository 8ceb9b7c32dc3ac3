import { once } from "node:events";
import { createServer } from "node:net";
import { connect } from "node:tls";
import type { FuzzTarget } from "./fuzz-target.js";
import { HTTPS_LOGIN, VM_REGISTRY } from "./fuzz-target.js";
import { ProtoMessages } from "./proto-messages.js";
import type { Surface } from "./surface.js";
import { ConfigsSurface } from "./surfaces/configs.js";
import { CpiAnswersSurface } from "./surfaces/cpi-answers.js";
import { GrpcSurface } from "./surfaces/grpc.js";
import { Http2Surface } from "./surfaces/http2.js";
import { HttpsSurface } from "./surfaces/https.js";
import { MbusSurface } from "./surfaces/mbus.js";
import { NbdSurface } from "./surfaces/nbd.js";
import { RegistryHttpSurface } from "./surfaces/registry-http.js";
import { StemcellsSurface } from "./surfaces/stemcells.js";
import { TlsSurface } from "./surfaces/tls.js";

export interface SurfaceParts {
  readonly target: FuzzTarget;
  /** NBD socket of the disk that the fuzzer attacks. */
  readonly nbdSocketPath: string;
}

/** Factories of the surfaces, by name. */
const MAKERS: Readonly<Record<string, (parts: SurfaceParts) => Surface | Promise<Surface>>> = {
  grpc: ({ target }) => new GrpcSurface(target.targets, new ProtoMessages()),
  http2: ({ target }) => new Http2Surface(target.targets),
  tls: async ({ target }) => new TlsSurface(target.targets, await clientHello()),
  nbd: ({ nbdSocketPath }) => new NbdSurface(nbdSocketPath),
  mbus: ({ target }) =>
    MbusSurface.connect({
      address: target.mesh.nats.address,
      director: target.filesOf("director"),
      agent: target.filesOf("disk-agent"),
    }),
  "registry-http": ({ target }) =>
    new RegistryHttpSurface(target.targets, { port: target.vmRegistryPort, ...VM_REGISTRY }),
  https: ({ target }) =>
    new HttpsSurface(target.targets, { port: target.httpsPort, login: HTTPS_LOGIN, uaa: target.uaa }),
  configs: ({ target }) => new ConfigsSurface(target.mesh.clients),
  stemcells: ({ target }) => new StemcellsSurface(target.mesh.clients.stemcells),
  "cpi-answers": ({ target }) => new CpiAnswersSurface(target),
};

export const SURFACE_NAMES = Object.keys(MAKERS);

/** Returns the surface with that name. */
export function makeSurface(name: string, parts: SurfaceParts): Surface | Promise<Surface> {
  const make = MAKERS[name];
  if (make === undefined) throw new Error(`there is no surface ${name}: give one of ${SURFACE_NAMES.join(", ")}`);
  return make(parts);
}

/**
 * Returns a TLS ClientHello of an ordinary client. Its random part differs between runs, but no server depends on it.
 */
async function clientHello(): Promise<Buffer> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const client = connect({ port, host: "127.0.0.1", ALPNProtocols: ["h2"] }).on("error", () => {});
  const [socket] = await once(server, "connection");
  const [hello] = await once(socket, "data");
  client.destroy();
  server.close();
  return hello;
}
