/** Heights of many rows, known or estimated, with sums in logarithmic time (a Fenwick tree). */
export class Heights {
  private heights: number[] = [];
  private sums: number[] = [0];

  get length(): number {
    return this.heights.length;
  }

  push(height: number): void {
    this.heights.push(height);
    const at = this.heights.length;
    let sum = height;
    for (let step = 1; step < (at & -at); step *= 2) sum += this.sums[at - step] ?? 0;
    this.sums.push(sum);
  }

  get(index: number): number {
    return this.heights[index] ?? 0;
  }

  set(index: number, height: number): void {
    const change = height - (this.heights[index] ?? 0);
    if (change === 0) return;
    this.heights[index] = height;
    for (let at = index + 1; at < this.sums.length; at += at & -at) this.sums[at] = (this.sums[at] ?? 0) + change;
  }

  /** Where a row begins. */
  offset(index: number): number {
    let sum = 0;
    for (let at = Math.min(index, this.heights.length); at > 0; at -= at & -at) sum += this.sums[at] ?? 0;
    return sum;
  }

  get total(): number {
    return this.offset(this.heights.length);
  }

  /** The row at a height; the last one where that is below all. */
  find(y: number): number {
    let at = 0;
    let left = y;
    let step = 1;
    while (step * 2 < this.sums.length) step *= 2;
    for (; step > 0; step = Math.floor(step / 2)) {
      const next = at + step;
      const sum = this.sums[next];
      if (sum !== undefined && sum <= left) {
        at = next;
        left -= sum;
      }
    }
    return Math.max(0, Math.min(at, this.heights.length - 1));
  }

  clear(): void {
    this.heights = [];
    this.sums = [0];
  }
}
