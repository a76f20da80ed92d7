import type { ViewProps } from './plan';
export function TimelineView(props: ViewProps) {
  void props;
  return <p>TimelineView</p>;
}
