export const App = (props: Props) => <div>{props.x}</div>;
export function View() {
  return <App x={1} />;
}
