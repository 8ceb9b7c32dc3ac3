/**
 * Seed 000's reference table of API versions. `updatesRegistry`: the bosh-registry has the agent's settings; otherwise the
 * infrastructure has them.
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
