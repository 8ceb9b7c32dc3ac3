import { accessSync, constants, existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { delimiter, join, resolve } from "node:path";
import { replaceFile } from "@diskmesh/atomic-file";
import { hostPortOf, quoted } from "@diskmesh/domain";
import { UsageError } from "../output/exit-codes.js";
import type { Action, ActionCall } from "./action.js";
import { natsFiles } from "./nats-config.js";
import { open } from "./pki.js";
import { runServiceProgram } from "./service-program.js";

const VALID_DAYS = 365;
const PORTS = { director: 7010, "cpi-dispatcher": 7020, "disk-registry": 7030 } as const;
const [JOIN_PORT, NATS_PORT] = [7023, 4222];
const NATS = "nats-server";

export const newMesh: Action = {
  usage: "new-mesh <folder> <address>",
  summary: "make the certificates, configs, state and systemd units of a mesh with one control machine",
  example: "diskmesh new-mesh /var/lib/diskmesh 10.0.0.11",
  isOpenEnded: true,
  run: async (call) => {
    const { args, environment, output } = call;
    const [folder, address] = [resolve(args[0] as string), args[1] as string];
    if (hostPortOf(`${address}:1`) === undefined)
      throw new UsageError(`${quoted(address)} is no address: give that at which hosts reach this machine`);
    // systemd splits words at spaces, and expands % and $.
    if (!/^[\w./-]+$/.test(folder))
      throw new UsageError(
        `${quoted(folder)} cannot stand in a unit: give a folder of letters, digits, "/", ".", "_" and "-"`,
      );
    const done = join(folder, "endpoints.json");
    if (existsSync(done)) throw new UsageError(`${quoted(folder)} has a mesh: give a new folder`);
    const services = Object.keys(PORTS);
    const programs = new Map([...services, NATS].map((name) => [name, programOf(name, environment.PATH ?? "")]));
    for (const name of ["nats", "units"]) await mkdir(join(folder, name), { recursive: true, mode: 0o700 });
    await makeCertificates(call, folder, address);
    for (const [name, config] of Object.entries(configsOf(folder, address)))
      await replaceFile(
        join(folder, `${name}.yaml`),
        `# Made by diskmesh new-mesh.\n${JSON.stringify(config, null, 2)}\n`,
      );
    await makeNatsConfig(call, folder, address);
    for (const service of ["disk-registry", "director"])
      await runServiceProgram(output, service, "init", ["--config", join(folder, `${service}.yaml`)]);
    for (const [name, program] of programs)
      await replaceFile(join(folder, "units", unitOf(name)), unitText(name, program, folder));
    // Written last: its presence says that the mesh is whole.
    const endpoints = Object.entries(PORTS).map(([name, port]) => [name, { grpc: `${address}:${port}` }]);
    await replaceFile(done, `${JSON.stringify(Object.fromEntries(endpoints), null, 2)}\n`);
    const units = [...programs.keys()].map(unitOf).join(" ");
    const next = `start its units, which are in ${join(folder, "units")}: ${units}; hosts join at ${address}:${JOIN_PORT}`;
    output.answer({ folder, address }, `made a mesh; set DISKMESH_STATE=${folder}, and ${next}`);
  },
};

/** Returns the path of a program on PATH, where links are kept, so that a unit follows an upgrade. */
function programOf(service: string, path: string): string {
  const name = service === NATS ? NATS : `diskmesh-${service}`;
  const found = path
    .split(delimiter)
    .map((folder) => resolve(folder, name))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
  if (found !== undefined) return found;
  throw new UsageError(
    service === NATS
      ? `${NATS} is not on PATH: install 2.10.4 or newer`
      : `${name} is not on PATH: add bin/ of the release`,
  );
}

const certificatesFolder = (folder: string): string => join(folder, "certs");

const withFolder = (call: ActionCall, folder: string): ActionCall => ({
  ...call,
  options: { folder: certificatesFolder(folder) },
});

async function makeCertificates(call: ActionCall, folder: string, address: string): Promise<void> {
  const { parseHolders } = await import("@diskmesh/pki");
  const certificates = await open(withFolder(call, folder), true);
  const list = [...Object.keys(PORTS), "nats"].map((name) => `${name} ${address}\n`).join("");
  const listFile = join(certificatesFolder(folder), "mesh.list");
  await replaceFile(listFile, `${list}operator\n`);
  const options = { validDays: VALID_DAYS, all: false, newKeys: false };
  await certificates.make(parseHolders(`${list}operator\n`, listFile), options);
  await certificates.makeHostAuthority();
}

function tlsOf(folder: string, name: string) {
  const file = (ofHolder: string) => join(certificatesFolder(folder), ofHolder);
  return { caFile: file("ca.pem"), certFile: file(`${name}.pem`), keyFile: file(`${name}-key.pem`) };
}

function configsOf(folder: string, address: string): Readonly<Record<keyof typeof PORTS, object>> {
  const at = (port: number) => ({ host: address, port });
  const common = (name: keyof typeof PORTS) => ({
    listen: at(PORTS[name]),
    tls: { ...tlsOf(folder, name), revokedFile: join(certificatesFolder(folder), "revoked") },
  });
  const registry = { address: `${address}:${PORTS["disk-registry"]}` };
  const tablet = { storage: join(folder, "state") };
  const hosts = join(certificatesFolder(folder), "hosts");
  const authority = { certFile: join(hosts, "hosts-ca.pem"), keyFile: join(hosts, "hosts-ca-key.pem") };
  return {
    "disk-registry": { ...common("disk-registry"), tablet, join: { listen: at(JOIN_PORT), authority } },
    "cpi-dispatcher": {
      ...common("cpi-dispatcher"),
      registry,
      executables: { runFolder: join(folder, "run") },
    },
    director: {
      ...common("director"),
      tablet,
      dispatcher: { address: `${address}:${PORTS["cpi-dispatcher"]}` },
      nats: { servers: [`${address}:${NATS_PORT}`] },
      agents: { natsIssuerSeedFile: join(certificatesFolder(folder), "nats-issuer.seed") },
      nodes: { registries: [registry] },
      dynamicDisks: { enabled: true },
      stemcells: { folder: join(folder, "stemcells") },
    },
  };
}

async function makeNatsConfig(call: ActionCall, folder: string, address: string): Promise<void> {
  const { natsServerConfig } = await import("@diskmesh/mbus");
  const natsFolder = join(folder, "nats");
  for (const [name, text] of await natsFiles(withFolder(call, folder), natsFolder))
    await replaceFile(join(natsFolder, name), text);
  const { certFile, keyFile } = tlsOf(folder, "nats");
  const options = { listen: `${address}:${NATS_PORT}`, name: "control", certFile, keyFile, natsFolder };
  await replaceFile(join(folder, "nats.conf"), natsServerConfig(options));
}

const unitOf = (name: string): string => `diskmesh-${name === NATS ? "nats" : name}.service`;

function unitText(name: string, program: string, folder: string): string {
  const args = name === NATS ? `-c ${join(folder, "nats.conf")}` : `--config ${join(folder, `${name}.yaml`)}`;
  return `# Made by diskmesh new-mesh. diskmesh-.service.d of the release hardens it.
[Unit]
Description=${name} of diskmesh

[Service]
ExecStart=${program} ${args}
Restart=on-failure
UMask=0077
ReadWritePaths=${folder}

[Install]
WantedBy=multi-user.target
`;
}
