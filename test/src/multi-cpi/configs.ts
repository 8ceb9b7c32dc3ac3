import { readFileSync } from "node:fs";
import type { TlsFiles } from "@diskmesh/rpc";
import type { ReferenceCpi } from "../reference-cpi/install.js";

/** Configs for three CPI executables and two cells in one mesh. Each has its own az. */

export const AZS = ["z1", "z2", "z3", "z4", "z5"] as const;
export type AzName = (typeof AZS)[number];

/** CPI of each az at the beginning. */
export const CPIS: Readonly<Record<AzName, string>> = {
  z1: "first",
  z2: "second",
  z3: "third",
  z4: "cell-1",
  z5: "cell-2",
};

/** Address range of VMs in z1, z2 and z3. Each VM has its own address; all of 127.0.0.0/8 is the local machine. */
const VM_RANGE = "127.0.41.0/24";

export interface CpiConfigInput {
  /** CPIs of API versions 1, 2 and 3. */
  readonly installed: readonly [ReferenceCpi, ReferenceCpi, ReferenceCpi];
  /** `host:port` of the registries of cell-1 and cell-2. */
  readonly cells: readonly [string, string];
  readonly vmRegistry: { readonly endpoint: string; readonly user: string; readonly password: string };
  readonly mbus: object;
  /** Present name of the CPI `second`. */
  readonly nameInZ2: string;
}

export function cpiConfig(input: CpiConfigInput): string {
  const { installed, cells, vmRegistry, mbus, nameInZ2 } = input;
  const [first, second, third] = installed;
  return `
cpis:
- name: first
  type: reference
  exec_path: ${first.execPath}
  properties:
    speaks_api_version: 1
    state_folder: ${first.stateFolder}
    password: password-of-first
    registry: ${JSON.stringify(vmRegistry)}
    agent: { mbus: ${JSON.stringify(mbus)} }
- name: ${nameInZ2}
  migrated_from: [${nameInZ2 === "second" ? "" : "{ name: second }"}]
  type: reference
  exec_path: ${second.execPath}
  properties:
    speaks_api_version: 2
    stemcell_formats: [raw]
    state_folder: ${second.stateFolder}
    password: password-of-second
- name: third
  type: reference
  exec_path: ${third.execPath}
  properties:
    speaks_api_version: 3
    stemcell_formats: [raw, qcow2]
    hint: object
    state_folder: ${third.stateFolder}
    password: password-of-third
- name: cell-1
  type: fleet
  properties: { registry_address: "${cells[0]}", password: password-of-cell-1 }
- name: cell-2
  type: fleet
  properties: { registry_address: "${cells[1]}", password: password-of-cell-2 }
`;
}

export function cloudConfig(cpis: Readonly<Record<AzName, string>>): string {
  return `
azs:
${AZS.map((az) => `- { name: ${az}, cpi: ${cpis[az]} }`).join("\n")}
disk_types:
- { name: small, disk_size: 1 }
vm_types:
- { name: small }
networks:
- name: private
  subnets:
  - { range: ${VM_RANGE}, gateway: 127.0.41.1, azs: [z1, z2, z3] }
`;
}

/**
 * Returns a manifest with two instances in every az; `late` adds one to z2. Hosts have their own operating system, so
 * their stemcell is not used.
 */
export function manifest({ late }: { readonly late: boolean }): string {
  const vms = "vm_type: small, stemcell: system, networks: [{ name: private }]";
  return `
name: everywhere
stemcells: [{ alias: system, os: ubuntu-noble, version: latest }]
instance_groups:
- { name: vm, instances: 6, azs: [z1, z2, z3], ${vms}, persistent_disk_type: small }
- { name: host, instances: 4, azs: [z4, z5], stemcell: system }
${late ? `- { name: late, instances: 1, azs: [z2], ${vms} }` : ""}
`;
}

/** Returns the NATS settings of agents in VMs. */
export function mbusOf(natsAddress: string, files: TlsFiles): object {
  const [ca, certificate, private_key] = [files.caFile, files.certFile, files.keyFile].map((file) =>
    readFileSync(file, "utf8"),
  );
  return { urls: [`nats://${natsAddress}`], cert: { ca, certificate, private_key } };
}
