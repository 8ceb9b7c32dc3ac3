/** Returns a count with its noun: "1 disk", "3 disks". `one` and `many` may include a verb. */
export function countText(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
