import type { BoshCli } from "./bosh-cli.js";

/** The results of a walk's commands that later commands need. */
export interface Seen {
  /** The group's instances, in order. */
  instanceIds: string[];
  vmCids: string[];
  /** The disks of the deployment before. */
  diskCids: string[];
  taskId: number;
  eventId: number;
}

/** A command as it was typed when its requests were recorded, and these, with what is read from each answer. */
export type Step = readonly [command: string, run: (cli: BoshCli, seen: Seen) => Promise<unknown>];

export const CLOUD_CONFIG = `azs:
- name: z1
disk_types:
- disk_size: 1
  name: small
networks:
- name: any
  type: dynamic
vm_types:
- name: small
`;

/**
 * Returns a manifest as the CLI writes it: keys in order, with the fields that a deploy of BOSH's own director needs.
 */
export const manifest = (instances: number, group = "web"): string => `instance_groups:
- azs:
  - z1
  env:
    bosh:
      password: canary-in-env
  instances: ${instances}
  jobs: []
  name: ${group}
  networks:
  - name: any
  persistent_disk_type: small
  stemcell: system
  vm_type: small
name: dep
releases: []
stemcells:
- alias: system
  os: ubuntu-noble
  version: latest
update:
  canaries: 1
  canary_watch_time: 1000-60000
  max_in_flight: 1
  update_watch_time: 1000-60000
`;
