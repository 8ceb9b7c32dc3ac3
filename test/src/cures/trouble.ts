import type { TestMesh } from "../mesh/test-mesh.js";

type Asked = readonly [kind: string, name: string];

/** A trouble, and the command that `why` offers for it. */
export interface Trouble {
  readonly title: string;
  /** Returns why this machine cannot cause it; undefined when it can. */
  readonly problem?: () => string | undefined;
  /** Brings the trouble about. */
  readonly make: (mesh: TestMesh) => Promise<unknown>;
  /** Arguments of `diskmesh why`, or a function that returns these once the trouble is there. */
  readonly asked: Asked | ((mesh: TestMesh) => Promise<Asked>);
  readonly reason: string;
  /** Matches the offered command, or the sentence that names the command. */
  readonly cure: RegExp;
  /** Runs beside the command. */
  readonly meanwhile?: (mesh: TestMesh) => Promise<unknown>;
  /** Throws while the trouble is there. By default `why` must not show the reason. */
  readonly gone?: (mesh: TestMesh) => Promise<unknown>;
  /** Brings the mesh back to its first state. */
  readonly after?: (mesh: TestMesh) => Promise<unknown>;
}
