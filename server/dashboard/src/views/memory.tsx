import type { ViewProps } from './plan';
export function MemoryView(props: ViewProps) {
  void props;
  return <p>MemoryView</p>;
}
