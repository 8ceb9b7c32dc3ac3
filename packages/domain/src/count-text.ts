/** "1 disk", "3 disks"; with a verb, `one` and `many` have it. */
export function countText(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
