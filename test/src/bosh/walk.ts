import type { BoshCli } from "./bosh-cli.js";

/** Results of commands that later commands need. */
export interface Seen {
  /** Ids of the group's instances, in order. */
  instanceIds: string[];
  vmCids: string[];
  /** Disks of the previous deployment. */
  diskCids: string[];
  taskId: number;
  eventId: number;
}

/** A recorded command, and a function that sends its requests and checks the answers. */
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
 * Returns a manifest in the CLI's format: sorted keys, with the fields that BOSH's own director requires for a deploy.
 */
export const manifest = (instances: number): string => `instance_groups:
- azs:
  - z1
  env:
    bosh:
      password: canary-in-env
  instances: ${instances}
  jobs: []
  name: web
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
