/**
 * Reference table of API versions from seed 000. `updatesRegistry`: the agent's settings are in the bosh-registry, and
 * otherwise in the infrastructure.
 */
export const VERSION_TABLE: readonly (readonly [
  director: number,
  cpi: number,
  stemcell: number,
  updatesRegistry: boolean,
])[] = [
  [1, 1, 1, true],
  [1, 1, 2, true],
  [1, 2, 2, true],
  [2, 2, 2, false],
  [1, 2, 1, true],
  [2, 2, 1, true],
  [2, 1, 1, true],
  [2, 1, 2, true],
];
