import { CpiServiceService } from "@diskmesh/api/cpi";
import type { Role } from "@diskmesh/domain";
import type { RpcServer } from "@diskmesh/rpc";
import type { DispatcherContext } from "../context.js";
import { attachDisk } from "./attach-disk.js";
import { calculateVmCloudProperties } from "./calculate-vm-cloud-properties.js";
import { createDisk } from "./create-disk.js";
import { createStemcell } from "./create-stemcell.js";
import { createVm } from "./create-vm.js";
import { deleteDisk } from "./delete-disk.js";
import { deleteSnapshot } from "./delete-snapshot.js";
import { deleteStemcell } from "./delete-stemcell.js";
import { deleteVm } from "./delete-vm.js";
import { detachDisk } from "./detach-disk.js";
import { endCalls } from "./end-calls.js";
import { fence } from "./fence.js";
import { getDisks } from "./get-disks.js";
import { hasDisk } from "./has-disk.js";
import { hasVm } from "./has-vm.js";
import { info } from "./info.js";
import { listCpis } from "./list-cpis.js";
import { rebootVm } from "./reboot-vm.js";
import { resizeDisk } from "./resize-disk.js";
import { setCpiConfig } from "./set-cpi-config.js";
import { setDiskMetadata } from "./set-disk-metadata.js";
import { setVmMetadata } from "./set-vm-metadata.js";
import { snapshotDisk } from "./snapshot-disk.js";
import { updateDisk } from "./update-disk.js";
import { watchCpiLog } from "./watch-cpi-log.js";

const DIRECTORS: readonly Role[] = ["director"];
const READERS: readonly Role[] = ["director", "operator"];

/** Offers the CPI contract: to directors all of it, to operators what changes nothing. */
export function addCpiService(server: RpcServer, context: DispatcherContext): void {
  server.addService(CpiServiceService, {
    roles: {
      info: READERS,
      createVm: DIRECTORS,
      deleteVm: DIRECTORS,
      hasVm: READERS,
      createDisk: DIRECTORS,
      deleteDisk: DIRECTORS,
      hasDisk: READERS,
      attachDisk: DIRECTORS,
      detachDisk: DIRECTORS,
      getDisks: READERS,
      setDiskMetadata: DIRECTORS,
      createStemcell: DIRECTORS,
      deleteStemcell: DIRECTORS,
      rebootVm: DIRECTORS,
      setVmMetadata: DIRECTORS,
      resizeDisk: DIRECTORS,
      updateDisk: DIRECTORS,
      snapshotDisk: DIRECTORS,
      deleteSnapshot: DIRECTORS,
      calculateVmCloudProperties: DIRECTORS,
      setCpiConfig: DIRECTORS,
      watchCpiLog: DIRECTORS,
      listCpis: READERS,
      fence: DIRECTORS,
      endCalls: DIRECTORS,
    },
    handlers: {
      info: info(context),
      createVm: createVm(context),
      deleteVm: deleteVm(context),
      hasVm: hasVm(context),
      createDisk: createDisk(context),
      deleteDisk: deleteDisk(context),
      hasDisk: hasDisk(context),
      attachDisk: attachDisk(context),
      detachDisk: detachDisk(context),
      getDisks: getDisks(context),
      setDiskMetadata: setDiskMetadata(context),
      createStemcell: createStemcell(context),
      deleteStemcell: deleteStemcell(context),
      rebootVm: rebootVm(context),
      setVmMetadata: setVmMetadata(context),
      resizeDisk: resizeDisk(context),
      updateDisk: updateDisk(context),
      snapshotDisk: snapshotDisk(context),
      deleteSnapshot: deleteSnapshot(context),
      calculateVmCloudProperties: calculateVmCloudProperties(context),
      setCpiConfig: setCpiConfig(context),
      watchCpiLog: watchCpiLog(context),
      listCpis: listCpis(context),
      fence: fence(context),
      endCalls: endCalls(context),
    },
  });
}
