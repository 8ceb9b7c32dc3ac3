import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { DriverProcess } from "@diskmesh/csi-driver/testing";
import { temporaryFolder } from "@diskmesh/testkit";

export const CAPABILITY = {
  accessType: { $case: "mount" as const, value: { fsType: "ext4" } },
  accessMode: { mode: "SINGLE_NODE_MULTI_WRITER" as const },
};

/** The calls of a kubelet and an attacher for one volume on one node. */
export class NodeOrder {
  readonly folder = temporaryFolder();
  readonly staging = join(this.folder, "globalmount");
  readonly target = join(this.folder, "mount");
  publishContext: Record<string, string> = {};

  constructor(
    readonly driver: DriverProcess,
    readonly nodeId: string,
    readonly volumeId: string,
  ) {
    mkdirSync(this.staging);
  }

  async attach(): Promise<void> {
    const { volumeId, nodeId } = this;
    const request = { volumeId, nodeId, volumeCapability: CAPABILITY };
    const { publishContext } = await this.driver.clients.controller.controllerPublishVolume(request);
    this.publishContext = publishContext;
  }

  async stage(): Promise<void> {
    const { volumeId, publishContext, staging } = this;
    const request = { volumeId, publishContext, stagingTargetPath: staging, volumeCapability: CAPABILITY };
    await this.driver.clients.node.nodeStageVolume(request);
  }

  async publish(): Promise<void> {
    const { volumeId, publishContext, staging, target } = this;
    const paths = { stagingTargetPath: staging, targetPath: target };
    await this.driver.clients.node.nodePublishVolume({
      volumeId,
      publishContext,
      ...paths,
      volumeCapability: CAPABILITY,
    });
  }

  async unpublish(): Promise<void> {
    await this.driver.clients.node.nodeUnpublishVolume({ volumeId: this.volumeId, targetPath: this.target });
  }

  async unstage(): Promise<void> {
    await this.driver.clients.node.nodeUnstageVolume({ volumeId: this.volumeId, stagingTargetPath: this.staging });
  }

  async detach(): Promise<void> {
    const { volumeId, nodeId } = this;
    await this.driver.clients.controller.controllerUnpublishVolume({ volumeId, nodeId });
  }

  get up() {
    return [() => this.attach(), () => this.stage(), () => this.publish()];
  }

  get down() {
    return [() => this.unpublish(), () => this.unstage(), () => this.detach()];
  }
}

export async function inOrder(calls: readonly (() => Promise<void>)[], times = 1): Promise<void> {
  for (const call of calls) for (let time = 0; time < times; time++) await call();
}
