import type { Action } from "../action.js";
import { addDevice } from "./add-device.js";
import { addHost } from "./add-host.js";
import { backup } from "./backup.js";
import { cancel } from "./cancel.js";
import { configs } from "./configs.js";
import { deleteDisk } from "./delete-disk.js";
import { deploy } from "./deploy.js";
import { detach } from "./detach.js";
import { devices } from "./devices.js";
import { disks } from "./disks.js";
import { events } from "./events.js";
import { fenceHost } from "./fence-host.js";
import { hosts } from "./hosts.js";
import { instances } from "./instances.js";
import { locks } from "./locks.js";
import { logs } from "./logs.js";
import { natsConfig } from "./nats-config.js";
import { passthru } from "./passthru.js";
import { pki } from "./pki.js";
import { provide } from "./provide.js";
import { purgeHost } from "./purge-host.js";
import { removeDevice } from "./remove-device.js";
import { removeHost } from "./remove-host.js";
import { restore } from "./restore.js";
import { resume } from "./resume.js";
import { setDeviceState } from "./set-device-state.js";
import { setHostState } from "./set-host-state.js";
import { status } from "./status.js";
import { tasks } from "./tasks.js";
import { updateConfig } from "./update-config.js";
import { watch } from "./watch.js";
import { why } from "./why.js";

/** In the order in which help shows them: looking, then doing. */
export const ACTIONS: readonly Action[] = [
  status,
  why,
  hosts,
  devices,
  disks,
  instances,
  tasks,
  locks,
  configs,
  events,
  logs,
  watch,
  addHost,
  removeHost,
  purgeHost,
  addDevice,
  removeDevice,
  setHostState,
  setDeviceState,
  fenceHost,
  provide,
  detach,
  deleteDisk,
  updateConfig,
  deploy,
  cancel,
  resume,
  passthru,
  backup,
  restore,
  pki,
  natsConfig,
];
